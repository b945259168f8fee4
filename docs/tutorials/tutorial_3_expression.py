"""
Gene expression with few samples
================================

A GEO data set has a dozen samples a group and thousands of genes. What can be learnt, and what not?

Files of GEO are read as they are: ``jgl.io.read_table("GDS2047.soft.gz", label="agent")``, or ``jointglasso screen
GDS2047.soft.gz --label agent``. Here we
simulate one, to know the truth.
"""

# %%
# The data
# --------
# 2,000 genes, 20 and 18 samples. Forty regulators with four targets each, in both groups; five more in the treated
# group.
import numpy as np

import jointglasso as jgl

rng = np.random.default_rng(3)


def expression(n, n_modules):
    X = rng.normal(size=(n, 2000))
    for module in range(n_modules):
        first = 5 * module
        X[:, first + 1 : first + 5] += 2.0 * X[:, [first]]
    return X


X = np.vstack([expression(20, 40), expression(18, 45)])
y = np.repeat(["control", "treated"], [20, 18])
source = jgl.SampleCovariance.from_labels(X, y, scale="correlation", variable_names=[f"g{i}" for i in range(2000)])

# %%
# Look before you leap
# --------------------
# With so few samples the largest of two million chance correlations is large. The curve shows how the problem falls
# apart as the penalty grows, and where
# noise alone would tie most genes together.
curve = jgl.component_curve(source, ratio=0.3)
figure_curve = jgl.plots.plot_component_curve(curve)

# %%
# Solve where blocks are small
# ----------------------------
solution = jgl.solve(source, 0.80, 0.1)
print(solution)

# %%
networks = jgl.JointNetworks.from_solution(solution)
edges = networks.edges()
module = edges[["variable1", "variable2"]].map(lambda name: int(name[1:]) // 5)
right = (module["variable1"] == module["variable2"]) & (module["variable1"] < 45)
print(f"{right.mean():.0%} of {len(edges)} edges join genes of one module")

# %%
# The figure
# ----------
figure = jgl.plots.plot_networks(networks, pairs=120)

# %%
# With 18 samples most *differences* are chance. A permutation test compares the networks as a whole, and
# ``infer`` tests single pairs. ::
#
#     jgl.network_test(X, y).table
#     jgl.infer(X, y).differences(fdr=0.1)
