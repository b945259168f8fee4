"""
Psychology: a survey in two groups of voters
============================================

Before the election of 1996, the American National Election Study asked 944 people for their party, their own position
between left and right, the positions they ascribe to both candidates, and some facts about themselves. How do these
answers depend on each other, and does it differ between the voters of Clinton and of Dole?

The answers are public domain (American National Election Studies, through statsmodels), in the file
``election_study_1996.csv`` beside this script.
"""

# %%
# The data
# --------
# Positions run from 1 (extremely liberal) to 7 (extremely conservative), `party` from 0 (strong Democrat) to 6 (strong
# Republican).
import pandas as pd

import jointglasso as jgl

people = pd.read_csv("election_study_1996.csv")
people.head(3)

# %%
# Networks
# --------
# The answers are ordinal: ``association="mixed"`` estimates the correlations of the Gaussian variables behind them
# (polychoric and polyserial). The column `vote` has the classes.
chosen = jgl.select(people, "vote", association="mixed")
print(chosen)

# %%
networks = jgl.JointNetworks.from_solution(chosen.solution)
groups = dict.fromkeys(["party", "self", "Clinton", "Dole"], "positions") | dict.fromkeys(
    ["education", "income", "TV news", "age"], "person"
)
figure = jgl.plots.plot_networks(networks, groups=groups)

# %%
# Which differences are significant?
# ----------------------------------
# The networks are point estimates. `infer` gives intervals, p-values and false discovery rates, also of differences.
tested = jgl.infer(people, "vote", association="mixed")
columns = ["variable1", "variable2", "difference", "low", "high", "q_value"]
tested.differences(fdr=0.1)[columns].round(3)

# %%
# People place their own candidate near themselves and the other one far away. Given all other answers, the more
# conservative a voter of Dole is, the more conservative is Dole and the more liberal is Clinton in their eyes; for
# voters of Clinton it is the reverse. In the literature these are assimilation and contrast effects.
table = tested.edges().set_index(["class", "variable1", "variable2"])
pairs = [(vote, "self", candidate) for vote in ("Clinton", "Dole") for candidate in ("Clinton", "Dole")]
table.loc[pairs].round(3)

# %%
# A report to send
# ----------------
# ``texts`` shows the wording of a question wherever its name is pointed at::
#
#     jgl.write_report("survey.html", chosen.solution, selection=chosen, groups=groups, texts=wording)
