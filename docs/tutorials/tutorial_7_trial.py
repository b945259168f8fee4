"""
Medicine: did the treatment change the network? (simulated)
===========================================================

Eight symptoms of 300 patients before and after treatment, in a trial with a placebo arm. Age acts on all symptoms. The
drug takes away the link between sleep and mood; nothing else changes.
"""

# %%
# The data
# --------
import numpy as np
import pandas as pd

import jointglasso as jgl

rng = np.random.default_rng(5)
symptoms = ["mood", "sleep", "energy", "appetite", "worry", "panic", "tension", "avoidance"]
links = {(0, 1): 0.45, (1, 2): 0.3, (0, 3): 0.3, (4, 5): 0.4, (5, 7): 0.3, (4, 6): 0.3, (1, 4): 0.25}
tables, ages = {}, {}
for measurement in ("drug_late", "drug_early", "placebo_late", "placebo_early"):
    Theta = np.eye(8)
    for (i, j), value in links.items():
        Theta[i, j] = Theta[j, i] = 0.0 if measurement == "drug_late" and (i, j) == (0, 1) else -value
    age = rng.uniform(20, 70, 300)
    X = rng.multivariate_normal(np.zeros(8), np.linalg.inv(Theta), size=300) + 0.03 * age[:, None]
    tables[measurement], ages[measurement] = pd.DataFrame(X, columns=symptoms), pd.DataFrame({"age": age})

# %%
# The change under the drug, less that under placebo
# --------------------------------------------------
# ``covariates=`` takes out age within each class. The samples are different people here; for the same people measured
# twice, take the permutation test below with ``paired=``.
tested = jgl.infer(tables, covariates=ages)
change = {"drug_late": 1, "drug_early": -1, "placebo_late": -1, "placebo_early": 1}
tested.contrast(change).head(3).round(3)

# %%
# Do the changes of the networks differ at all? One p-value, from permutations within the arms:
arms = {name: name.split("_")[0] for name in tables}
print(jgl.network_test(tables, covariates=ages, contrast=change, arms=arms, n_permutations=199, random_state=0))

# %%
# Bridges, and how well symptoms are predicted
# --------------------------------------------
chosen = jgl.select(tables, covariates=ages)
networks = jgl.JointNetworks.from_solution(chosen.solution)
disorder = dict.fromkeys(symptoms[:4], "depression") | dict.fromkeys(symptoms[4:], "anxiety")
centrality = networks.centrality(groups=disorder)
centrality[centrality["class"] == "placebo_late"].nlargest(3, "bridge_strength").round(2)

# %%
predicted = jgl.predictability(tables, covariates=ages)
predicted.variables().head(3).round(2)

# %%
# The link between sleep and mood explained a part of both, and no longer does under the drug:
predicted.differences(fdr=0.1)[["class1", "class2", "variable", "difference", "q_value"]].round(3)

# %%
# How many patients could be dropped with the order of the symptoms by strength kept (the CS coefficient)?
jgl.centrality_stability(tables, covariates=ages, random_state=0).cs()

# %%
# A figure
# --------
# Rings show the share of each symptom that the others explain.
figure = jgl.plots.plot_networks(networks, groups=disorder, layout="circle", rings=predicted.table)
