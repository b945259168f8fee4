"""
Genomics: gene expression in three cancers
==========================================

Expression of 61 marker genes in 195 tumours of kidney, rectum and endometrium (The Cancer Genome Atlas). Which genes
depend on each other in all three cancers, and which in one only? These data are in the package, and
``jointglasso demo`` analyses them in the same way.
"""

# %%
# The data
# --------
# The genes are markers of ten processes and cell types, which the estimation does not use.

# sphinx_gallery_thumbnail_number = 2
import jointglasso as jgl

table, processes = jgl.datasets.load_expression()
table

# %%
# What can be afforded?
# ---------------------
# The blocks into which screening splits the problem as the penalties decrease:
source = table.to_source(scale="correlation")
figure_curve = jgl.plots.plot_component_curve(jgl.component_curve(source, ratio=1.0))

# %%
# Networks
# --------
chosen = jgl.select(source)
print(chosen)

# %%
networks = jgl.JointNetworks.from_solution(chosen.solution)
figure = jgl.plots.plot_networks(networks, groups=processes)

# %%
# The processes separate although nothing told the estimator about them:
edges = networks.edges()
within = edges["variable1"].map(processes) == edges["variable2"].map(processes)
print(f"{within.mean():.0%} of {len(edges)} edges join genes of one process; at random it would be 10 %.")

# %%
# In which processes do the cancers differ?
# -----------------------------------------
# Cancers are permuted; ``sets=`` also takes the path of a ``.gmt`` file, such as one of MSigDB.
members = {process: [gene for gene, of in processes.items() if of == process] for process in processes.values()}
tested = jgl.network_test(table.to_frame(), table.y, sets=members, n_permutations=199, random_state=0)
tested.sets().head(4).round(3)

# %%
# What is certified
# -----------------
# The certificate is about the optimisation: the distance to the exact solution of the penalised problem, and the edges
# that this solution has. It does not say that an edge is significant.
print(chosen.solution.certificate)

# %%
# How the penalties were chosen
# -----------------------------
figure_selection = jgl.plots.plot_selection(chosen)

# %%
# Files of GEO are read as they are: ``jointglasso fit GDS2047.soft.gz --label agent --out networks``.
