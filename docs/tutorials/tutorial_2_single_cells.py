"""
Single cells with AnnData (simulated)
=====================================

Counts of 60 genes in cells of three types. Networks are stored in the object, where scanpy and others find them.
"""

# %%
# The data
# --------
# Simulated counts: two modules of genes regulated together, the second in one type only.
import anndata
import numpy as np
import pandas as pd
from scipy import sparse

import jointglasso as jgl

rng = np.random.default_rng(2)
types, n = ["B", "NK", "T"], 150
parts = []
for cell_type in types:
    log_rate = rng.normal(1.0, 0.6, size=(n, 60))
    log_rate[:, 1:8] += 0.9 * log_rate[:, [0]]  # a regulator and seven targets, in all types
    if cell_type == "T":
        log_rate[:, 21:26] += 1.0 * log_rate[:, [20]]  # another, in T cells alone
    parts.append(rng.poisson(np.exp(log_rate)))
genes = [f"gene{i}" for i in range(60)]
adata = anndata.AnnData(
    sparse.csr_matrix(np.vstack(parts).astype(float)),
    obs=pd.DataFrame({"cell_type": np.repeat(types, n)}, index=[f"cell{i}" for i in range(3 * n)]),
    var=pd.DataFrame(index=genes),
)
adata

# %%
# As usual with counts: equal depth, then logarithms (``scanpy.pp.normalize_total`` and ``log1p`` do the same).
depth = np.asarray(adata.X.sum(axis=1)).ravel()
adata.X = sparse.csr_matrix(np.log1p(adata.X.toarray() / depth[:, None] * np.median(depth)))

# %%
# Choose and fit
# --------------
# Without penalties ``jgl.tl.networks`` chooses them, and stores the networks of all types in the object.
solution = jgl.tl.networks(adata, "cell_type")
print(solution)
sorted(adata.varp)

# %%
# What is found
# -------------
networks = jgl.anndata.networks(adata)
networks.hubs(4)

# %%
# Edges that only T cells have:
only = networks.edges().query("kind == 'specific' and `class` == 'T'")
only.sort_values("partial_correlation", ascending=False).head()[["variable1", "variable2", "partial_correlation"]]

# %%
# Which differences are significant? Of real cells name the donors (``donor=``): cells of one donor are not independent.
jgl.tl.differences(adata, "cell_type").head()

# %%
# None of 1,770 pairs, each of them weak; the networks as a whole do differ (``adaptive``):
print(jgl.network_test(adata.to_df(), adata.obs["cell_type"], n_permutations=199, random_state=0).table)

# %%
# Two figures
# -----------
figure = jgl.pl.networks(adata)

# %%
differences = jgl.pl.differences(adata, "NK", "T")

# %%
# For Cytoscape: ``networks.export("cells.graphml")``; for networkx ``networks.to_networkx("T")``.
