"""
Returns in calm and crisis
==========================

Twenty-four stocks of four sectors in two regimes. Which ties are always there, and which come with the crisis?
"""

# %%
# The data
# --------
# Simulated daily returns with heavy tails: sectors are chains, and in the crisis banks and insurers are tied
# together.
import numpy as np

import jointglasso as jgl

rng = np.random.default_rng(4)
sectors = ["bank", "insurer", "energy", "food"]
stocks = [f"{sector}{i}" for sector in sectors for i in range(1, 7)]


def precision(crisis):
    Theta = np.eye(24)
    for first in range(0, 24, 6):
        for i in range(first, first + 5):
            Theta[i, i + 1] = Theta[i + 1, i] = -0.4
    if crisis:
        for i in range(3):
            Theta[i, 6 + i] = Theta[6 + i, i] = -0.3
    return Theta


def returns(crisis, days):
    gaussian = rng.multivariate_normal(np.zeros(24), np.linalg.inv(precision(crisis)), size=days)
    return 0.01 * gaussian / np.sqrt(rng.chisquare(5, size=(days, 1)) / 5)


regimes = {"calm": returns(False, 500), "crisis": returns(True, 250)}

# %%
# Networks
# --------
# Tables by class are given as a dict. Heavy tails are no matter for ranks.
chosen = jgl.select(regimes, association="nonparanormal")
networks = jgl.JointNetworks(
    chosen.solution.estimate, chosen.solution.class_names, stocks, certified=chosen.solution.certified
)
print(networks)

# %%
groups = {stock: stock[:-1] for stock in stocks}
figure = jgl.plots.plot_networks(networks, groups=groups, layout="circle")

# %%
# What the crisis brings
# ----------------------
figure_differences = jgl.plots.plot_differences(networks, "crisis", "calm")

# %%
networks.differences("crisis", "calm").head(6)[["variable1", "variable2", "difference", "change"]]
