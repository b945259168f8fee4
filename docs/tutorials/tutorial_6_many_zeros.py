"""
Ecology: abundances with many zeros (simulated)
===============================================

Abundances of 16 species at 150 sites in each of two habitats, with half of the values zero. The species depend on each
other in a chain, except for one link that only the forest has.
"""

# %%
# The data
# --------
# A species is seen where conditions exceed a threshold of its own.
import numpy as np
import pandas as pd

import jointglasso as jgl

rng = np.random.default_rng(4)
names = [f"sp{i:02d}" for i in range(16)]
tables = {}
for habitat in ("forest", "meadow"):
    Theta = np.eye(16) - 0.42 * (np.eye(16, k=1) + np.eye(16, k=-1))
    if habitat == "meadow":
        Theta[7, 8] = Theta[8, 7] = 0.0
    S = np.linalg.inv(Theta)
    latent = rng.multivariate_normal(np.zeros(16), S / np.sqrt(np.outer(np.diag(S), np.diag(S))), size=150)
    tables[habitat] = np.expm1(np.maximum(latent - np.linspace(-0.6, 0.7, 16), 0.0))
X, habitats = np.vstack(list(tables.values())), np.repeat(list(tables), 150)
print(f"{np.mean(X == 0):.0%} zeros")

# %%
# Networks
# --------
# Correlations of the values are too small, since zeros hide how far below the threshold a species is.
# ``association="zero_inflated"`` estimates those of the latent variables.
chosen = jgl.select(pd.DataFrame(X, columns=names), habitats, association="zero_inflated")
print(chosen.explain())

# %%
# Which link differs?
# -------------------
tested = jgl.infer(pd.DataFrame(X, columns=names), habitats, association="zero_inflated")
tested.differences().head(3)[["variable1", "variable2", "difference", "low", "high", "q_value"]].round(3)

# %%
# A figure
# --------
networks = jgl.JointNetworks.from_solution(chosen.solution)
figure = jgl.plots.plot_networks(networks, layout="circle")
