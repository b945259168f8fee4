"""
A time course
=============

Thirty proteins at five times after a stimulus. Some ties are always there, one chain comes up and goes again.
"""

# %%
# The data
# --------
import numpy as np

import jointglasso as jgl

rng = np.random.default_rng(5)
times, proteins = ["0 h", "1 h", "2 h", "4 h", "8 h"], [f"P{i:02d}" for i in range(30)]
rise = {"0 h": 0.0, "1 h": 0.25, "2 h": 0.42, "4 h": 0.25, "8 h": 0.0}


def samples(tie, n=120):
    Theta = np.eye(30)
    for i in range(0, 14):
        Theta[i, i + 1] = Theta[i + 1, i] = -0.4  # always
    for i in range(20, 25):
        Theta[i, i + 1] = Theta[i + 1, i] = -tie  # comes and goes
    return rng.multivariate_normal(np.zeros(30), np.linalg.inv(Theta), size=n)


course = {time: samples(rise[time]) for time in times}

# %%
# Networks
# --------
# Classes come in the order in which they are given.
chosen = jgl.select(course)
networks = jgl.JointNetworks(chosen.solution.estimate, times, proteins)
print(networks)

# %%
figure = jgl.plots.plot_networks(networks)

# %%
# One pair along the time
# -----------------------
values = {time: networks.partial_correlations(time).loc["P22", "P23"] for time in times}
{time: round(value, 2) for time, value in values.items()}

# %%
# How often the edges come again
# ------------------------------
# In halves of the samples; an edge found in three quarters of them is usually called stable.
stability = jgl.edge_stability(course, lambda1=chosen.lambda1, lambda2=chosen.lambda2, n_subsamples=20, random_state=0)
with_stability = jgl.JointNetworks(chosen.solution.estimate, times, proteins, stability=stability.frequencies)
figure_stability = jgl.plots.plot_stability(with_stability, top=20)
