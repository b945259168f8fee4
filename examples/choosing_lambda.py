"""Choosing lambda: a data-driven grid, a criterion, and the reason for the choice in words."""

import tempfile
from pathlib import Path

import jointglasso as jgl

proteins = jgl.datasets.load_rppa().select(classes=["BLCA", "LUAD", "OV"])
forty = proteins.select(variables=proteins.variable_names[:40])

result = jgl.select(forty.X, forty.y, criterion="ebic")
print(result.explain())
print(f"lambda1={result.lambda1:.3f}, lambda2={result.lambda2:.3f}: edges by class {result.solution.n_edges}")

picture = Path(tempfile.mkdtemp(), "selection.png")
jgl.plots.plot_selection(result, path=picture)
print(f"Scores over the grid: {picture}")
