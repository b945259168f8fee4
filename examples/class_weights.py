"""Adaptive weights by class: an edge that is strong in one class is shrunk less there, and only there."""

import sys

import matplotlib.pyplot as plt
import numpy as np

import jointglasso as jgl


def partial_correlations(Theta):
    deviation = np.sqrt(np.diagonal(Theta))
    return -Theta / np.outer(deviation, deviation)


draw = np.random.default_rng(3)
names = [f"gene {letter}" for letter in "ABCDEFGHIJ"]
truth = {name: np.eye(10) for name in ("control", "treated")}
for i, size in enumerate(draw.uniform(0.15, 0.45, 9)):  # a chain in both classes
    for Theta in truth.values():
        Theta[i, i + 1] = Theta[i + 1, i] = -size
for i, j in [(0, 4), (2, 7)]:  # two strong edges in one class only
    truth["treated"][i, j] = truth["treated"][j, i] = -0.45
samples = {}
for name, Theta in truth.items():
    Theta[np.diag_indices(10)] += max(0.0, 0.1 - np.linalg.eigvalsh(Theta)[0])
    samples[name] = draw.multivariate_normal(np.zeros(10), np.linalg.inv(Theta), 150)
source = jgl.SampleCovariance(samples, scale="correlation", variable_names=names)

convex = jgl.solve(source, 0.12, 0.06, penalize_diagonal=False)
# One step by hand: an entry of twice lambda1 + lambda2 has a third of the weight, in its class.
sizes = [np.abs(Theta.toarray()) for Theta in convex.precision]
weights = [1.0 / (1.0 + size / 0.18) for size in sizes]
coupling = 1.0 / (1.0 + np.sqrt(sum(size**2 for size in sizes)) / 0.18)
by_hand = jgl.solve(source, 0.12, 0.06, penalize_diagonal=False, pair_weights=weights, coupling_weights=coupling)
adaptive = jgl.solve(source, 0.12, 0.06, penalize_diagonal=False, penalty_shape="adaptive")
print("by hand and by penalty_shape, largest difference:",
      f"{max(abs(a - b).max() for a, b in zip(by_hand.precision, adaptive.precision, strict=True)):.0e}")  # fmt: skip
for title, solution in (("convex", convex), ("adaptive by class", adaptive)):
    print(f"{title}: {solution.n_edges} edges, certified gap {solution.certificate.relative_gap:.0e}")

figure, axes = plt.subplots(1, 2, figsize=(7.2, 3.6), sharex=True, sharey=True, layout="constrained")
true_values = [partial_correlations(Theta) for Theta in truth.values()]
for axis, (k, name) in zip(axes, enumerate(truth), strict=True):
    edges = np.triu(true_values[k], 1) != 0.0
    axis.axline((0.0, 0.0), slope=1.0, color="0.7", linewidth=0.8, zorder=0)
    for solution, marker, colour, label in (
        (convex, "o", "#D55E00", "one penalty"), (adaptive, "s", "#0072B2", "adaptive, by class")
    ):  # fmt: skip
        estimate = partial_correlations(solution.precision[k].toarray())
        axis.scatter(true_values[k][edges], estimate[edges], s=22, marker=marker, color=colour, label=label)
    axis.set(title=name, xlabel="true partial correlation")
axes[0].set_ylabel("estimate")
axes[0].legend(frameon=False)
figure.savefig(sys.argv[1] if len(sys.argv) > 1 else "class_weights.pdf")
