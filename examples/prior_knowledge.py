"""Your own penalty weights: edges that are known or forbidden, with everything still exact."""

import numpy as np

import jointglasso as jgl

draw = np.random.default_rng(0)
names = ["TP53", "MDM2", "CDKN1A", "ATM", "CHEK2", "BRCA1"]
samples = {name: draw.standard_normal((40, 6)) for name in ("tumour", "normal")}
for X in samples.values():
    X[:, 1] += 0.5 * X[:, 0]  # TP53 - MDM2
    X[:, 2] += 0.9 * X[:, 0]  # TP53 - CDKN1A
source = jgl.SampleCovariance(samples, scale="correlation", variable_names=names)

weights = {
    ("TP53", "MDM2"): 0.2,  # well established: a fifth of the penalty
    ("TP53", "CDKN1A"): np.inf,  # ruled out by the experiment's design
}
for title, given in (("without", None), ("with", weights)):
    solution = jgl.solve(source, 0.35, 0.1, pair_weights=given)
    edges = jgl.JointNetworks.from_solution(solution).edges()
    found = sorted({f"{a}-{b}" for a, b in zip(edges["variable1"], edges["variable2"], strict=True)})
    print(f"{title} prior knowledge: {', '.join(found) or 'no edges'}")
