"""
Neuroscience: networks that change over time (simulated)
========================================================

Thirty signals at five times after a stimulus. Some edges are always present; one chain appears and disappears. The data
are simulated, so that the truth is known.
"""

# %%
# The data
# --------
import numpy as np

import jointglasso as jgl

rng = np.random.default_rng(5)
times, signals = ["0 s", "1 s", "2 s", "4 s", "8 s"], [f"S{i:02d}" for i in range(30)]
rise = {"0 s": 0.0, "1 s": 0.25, "2 s": 0.42, "4 s": 0.25, "8 s": 0.0}


def samples(strength, n=120):
    Theta = np.eye(30)
    for i in range(0, 14):
        Theta[i, i + 1] = Theta[i + 1, i] = -0.4  # always present
    for i in range(20, 25):
        Theta[i, i + 1] = Theta[i + 1, i] = -strength  # appears and disappears
    return rng.multivariate_normal(np.zeros(30), np.linalg.inv(Theta), size=n)


course = {time: samples(rise[time]) for time in times}

# %%
# Networks
# --------
# Classes are in the order in which they are given. The chain penalty compares each time with the next.
chosen = jgl.select(course, penalty="chain")
networks = jgl.JointNetworks(chosen.solution.estimate, times, signals)
print(networks)

# %%
figure = jgl.plots.plot_networks(networks)

# %%
# One pair over time
# ------------------
values = {time: networks.partial_correlations(time).loc["S22", "S23"] for time in times}
{time: round(float(value), 2) for time, value in values.items()}

# %%
# Stability selection
# -------------------
# Selection frequency of each edge in random halves of the samples; from 75 % on an edge is usually called stable.
stability = jgl.edge_stability(
    course, lambda1=chosen.lambda1, lambda2=chosen.lambda2, penalty="chain", n_subsamples=20, random_state=0
)
with_stability = jgl.JointNetworks(chosen.solution.estimate, times, signals, stability=stability.frequencies)
figure_stability = jgl.plots.plot_stability(with_stability, top=20)
