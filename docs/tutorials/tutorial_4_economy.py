"""
Finance: the economy before and after 1984
==========================================

Nine quarterly series of the United States from 1959 to 2009. From about 1984 on, output and inflation fluctuated far
less (the Great Moderation). Did the dependences among the series change as well, or only their variances?

The series are public domain (Federal Reserve Bank of St. Louis, through statsmodels), in the file ``us_economy.csv``
beside this script.
"""

# %%
# Changes, not levels
# -------------------
# Levels such as prices have trends, and their correlations are mostly those of the trends: with time stamps,
# `TimeVaryingGraphicalLasso` and ``jointglasso fit --time`` warn.
import numpy as np
import pandas as pd

import jointglasso as jgl

levels = pd.read_csv("us_economy.csv", index_col="quarter")
names = {
    "realgdp": "GDP", "realcons": "consumption", "realinv": "investment", "realgovt": "government", "realdpi": "income",
    "cpi": "prices", "m1": "money", "tbilrate": "interest", "unemp": "unemployment",
}  # fmt: skip
levels = levels[list(names)].rename(columns=names)
growth = 100 * np.log(levels.drop(columns=["interest", "unemployment"])).diff()
changes = growth.join(levels[["interest", "unemployment"]].diff()).iloc[1:]
period = np.where(changes.index < "1984", "1959-83", "1984-2009")
changes.groupby(period).std().round(2)

# %%
# Networks
# --------
# Consecutive quarters are alike, but criteria and tests take samples as independent, and would warn. `prewhiten`
# replaces each series by the residuals of an autoregressive model.
innovations = jgl.prewhiten(changes, period, order=2)

# %%
# Correlations of normal scores (``association="nonparanormal"``) are insensitive to heavy tails, and the correlation
# scale removes the variances.
chosen = jgl.select(innovations, association="nonparanormal")
networks = jgl.JointNetworks.from_solution(chosen.solution)
print(networks)

# %%
figure = jgl.plots.plot_networks(networks, layout="circle")

# %%
# Did the network change?
# -----------------------
# The values of the edges differ between the estimates. That alone is no evidence: no single difference is significant,
# nor is the difference of the networks as a whole.
tested = jgl.infer(innovations)
print(len(tested.differences(fdr=0.1)), "significant differences")
print(jgl.network_test(innovations, n_permutations=199, random_state=0).table)

# %%
# The edges that are significant:
tested.edges(fdr=0.05)[["class", "variable1", "variable2", "partial_correlation", "low", "high"]].round(2).head(10)
