"""
Neuroimaging: one network for each subject (simulated)
======================================================

Series of 20 regions in six subjects. Consecutive volumes are alike, and all subjects share most of their network.
"""

# %%
# The data
# --------
# A list with one array of volumes and regions for each subject, as nilearn's maskers return them.
import numpy as np

import jointglasso as jgl

rng = np.random.default_rng(6)
shared = np.triu(rng.random((20, 20)) < 0.12, 1) * rng.uniform(0.2, 0.5, (20, 20))
series = []
for _ in range(6):
    Theta = shared * rng.uniform(0.6, 1.4, (20, 20))
    Theta = np.diag(0.3 + (Theta + Theta.T).sum(axis=0)) - Theta - Theta.T
    volumes = rng.multivariate_normal(np.zeros(20), np.linalg.inv(Theta), size=180)
    for t in range(1, 180):
        volumes[t] += 0.6 * volumes[t - 1]
    series.append(volumes)

# %%
# Independent samples from dependent ones
# ---------------------------------------
# `select` would warn that consecutive samples are alike. `prewhiten` keeps the residuals of an autoregressive model.
residuals = jgl.prewhiten(series)
chosen = jgl.select(residuals)
print(chosen)

# %%
# Beside the truth:
found = [np.triu(np.abs(Theta.toarray()) > 0, 1) for Theta in chosen.precision]
true = shared > 0
share, false = np.mean([graph[true].mean() for graph in found]), np.mean([graph[~true].sum() for graph in found])
print(f"{share:.0%} of the true edges, {false:.1f} false edges a subject")

# %%
# The group penalty of nilearn, and one subject by itself
# -------------------------------------------------------
# ``GroupSparseCovariance(alpha)`` is this problem, here with a certificate:
source = jgl.SampleCovariance(residuals, scale="correlation")
print(jgl.solve(source, 0.0, 0.1, weights="sample_size", penalize_diagonal=False))

# %%
# An estimator for one subject, for scikit-learn's pipelines or nilearn's ``ConnectivityMeasure(cov_estimator=...)``:
alone = jgl.GraphicalLassoCV().fit(np.asarray(residuals["1"]))
print(alone.alpha_, alone.certificate_.relative_gap)

# %%
# A figure
# --------
networks = jgl.JointNetworks.from_solution(chosen.solution)
figure = jgl.plots.plot_networks(networks)
