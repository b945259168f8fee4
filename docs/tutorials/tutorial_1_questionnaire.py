"""
A questionnaire in two groups
=============================

Twenty-five items of five traits, answered on a scale from 1 to 5 by two groups of people. Which items hang together,
and where do the groups differ?

The answers are simulated, so that the truth is known: items of one trait form a ring, and in the second group one tie
between two traits is much stronger.
"""

# %%
# The data
# --------
# Each person's answers come from a Gaussian whose precision matrix is the network, cut into five categories.
import numpy as np
import pandas as pd

import jointglasso as jgl

rng = np.random.default_rng(1)
traits = ["sleep", "mood", "worry", "energy", "focus"]
items = [f"{trait}{number}" for trait in traits for number in range(1, 6)]


def network(bridge):
    """Precision matrix: a ring for each trait, and a tie from mood1 to worry1."""
    Theta = np.eye(25)
    for first in range(0, 25, 5):
        for i in range(5):
            one, two = first + i, first + (i + 1) % 5
            Theta[one, two] = Theta[two, one] = -0.32
    Theta[5, 10] = Theta[10, 5] = -bridge
    return Theta


def answers(bridge, n):
    latent = rng.multivariate_normal(np.zeros(25), np.linalg.inv(network(bridge)), size=n)
    return np.digitize(latent / latent.std(axis=0), [-1.2, -0.4, 0.4, 1.2]) + 1


people = pd.DataFrame(np.vstack([answers(0.05, 400), answers(0.4, 300)]), columns=items)
people["group"] = np.repeat(["controls", "patients"], [400, 300])
people.iloc[:3, -4:]

# %%
# Networks
# --------
# Answers are ordinal: ``association="mixed"`` correlates what lies behind them, a Gaussian cut at thresholds. The
# column ``group`` tells the classes.
chosen = jgl.select(people, "group", association="mixed")
print(chosen)

# %%
networks = jgl.JointNetworks.from_solution(chosen.solution)
print(networks)

# %%
# A picture with the traits as colours
# ------------------------------------
groups = {item: item[:-1] for item in items}
figure = jgl.plots.plot_networks(networks, groups=groups)

# %%
# Where the groups differ
# -----------------------
# The tie between mood and worry comes first, as it should.
networks.differences("patients", "controls").head(5)[["variable1", "variable2", "difference", "change"]]

# %%
figure_differences = jgl.plots.plot_differences(networks, "patients", "controls")

# %%
# Which of them would be there in other people? Tests of every pair, whatever the penalties chose:
tested = jgl.infer(people, "group", association="nonparanormal")
tested.differences(fdr=0.1)

# %%
# Which items are central
# -----------------------
figure_centrality = jgl.plots.plot_centrality(networks, top=12)

# %%
# A report to send
# ----------------
# ``texts`` shows the wording of an item wherever its name is pointed at::
#
#     jgl.write_report("questionnaire.html", chosen.solution, selection=chosen, groups=groups, texts=wording)
