"""
Methods: which penalty? (simulated)
===================================

Three groups share a network and each has something of its own. Group or fused, convex or not, and what is common.
"""

# %%
# The data
# --------
import numpy as np

import jointglasso as jgl

rng = np.random.default_rng(7)
common = 0.35 * (np.eye(15, k=1) + np.eye(15, k=-1))
tables, truth = {}, {}
for k, name in enumerate(("north", "middle", "south")):
    Theta = np.eye(15) - common
    Theta[4 * k, 4 * k + 5] = Theta[4 * k + 5, 4 * k] = -0.3
    truth[name] = np.triu(Theta != 0, 1)
    tables[name] = rng.multivariate_normal(np.zeros(15), np.linalg.inv(Theta), size=150)

# %%
# Let held-out samples say
# ------------------------
# ``"auto"`` compares the group penalty (same edges) with the fused one (same values).
chosen = jgl.select(tables, penalty="auto")
print(chosen.explain())

# %%
# Shrink strong edges less
# ------------------------
# ``penalty_shape=`` penalises pairs less that are strong in a first solution.
for shape in (None, "adaptive", "scad"):
    result = jgl.select(tables, penalty_shape=shape)
    graphs = [np.triu(np.abs(Theta.toarray()) > 0, 1) for Theta in result.precision]
    right = sum((graph & truth[name]).sum() for graph, name in zip(graphs, tables, strict=True))
    n_true, n_found = (sum(int(graph.sum()) for graph in part) for part in (truth.values(), graphs))
    print(f"{shape or 'lasso'}: {right} of {n_true} edges, {n_found - right} false")

# %%
# Is there a variable that was not measured?
# -------------------------------------------
# A variable that moves all others makes edges out of nothing. ``latent_rank=[1, 1, 1]`` allows one in each group,
# ``latent="auto"`` as many as the criterion supports. Each network has 15 edges.
moved = {name: X + rng.normal(size=(150, 1)) for name, X in tables.items()}
for rank in (None, [1, 1, 1]):
    result = jgl.select(moved, latent_rank=rank)
    print(f"latent variables {rank}: edges {result.solution.n_edges}")

# %%
# What is common, and what does each add?
# ---------------------------------------
source = jgl.SampleCovariance(tables, scale="correlation")
solution = jgl.solve(source, 0.15, 0.12, penalty="common")
parts = jgl.JointNetworks.shared_and_specific(solution)
print(dict(zip(parts.class_names, parts.n_edges, strict=True)))

# %%
# A figure
# --------
figure = jgl.plots.plot_networks(parts, layout="circle")
