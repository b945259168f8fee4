"""The experiments of the paper, run again: each gives data, figures, and whether the paper's claim holds."""

from __future__ import annotations

import importlib
from dataclasses import dataclass

from jointglasso.data.checks import check_choice
from reproduction.result import Result, Settings

__all__ = ["EXPERIMENTS", "Experiment", "Result", "Settings", "run_experiment"]


@dataclass(frozen=True)
class Experiment:
    """Where an experiment lives, what it is about, and about how long it takes: by default, and with --full."""

    module: str
    function: str
    title: str
    takes: str
    takes_full: str


EXPERIMENTS = {
    name: Experiment(*about)
    for name, about in {
        "table1": ("table1", "table1", "Table 1: the first iterations of ADMM and HADMM", "1 min", "1 min"),
        "figure-correctness": (
            "correctness", "figure_correctness", "ADMM and HADMM converge to the same objective", "1 min", "hours"
        ),
        "figure-times": ("times", "figure_times", "Time of HADMM, LADMM and GADMM", "4 min", "days"),
        "figure-complexity": (
            "complexity", "figure_complexity", "Complexity of the three screening rules", "1 min", "3 min"
        ),
        "p10000": ("large", "p10000", "Many variables: time of an iteration, complexity", "4 min", "hours, 10 GB"),
        "toy": ("toy", "toy", "The toy example: only hybrid thresholding splits", "seconds", "seconds"),
        "uniform-drawback": (
            "uniform", "uniform_drawback", "The drawback of uniform thresholding", "seconds", "seconds"
        ),
        "table2": ("table2", "table2", "Table 2: real data", "seconds; minutes with --data", "as long"),
        "figure-genes": (
            "genes", "figure_genes", "Networks of two classes on real data", "seconds; minutes with --data", "as long"
        ),
        "avalanche": ("avalanche", "avalanche", "Algorithm 1 against dynamic screening", "1 min", "5 min"),
    }.items()
}  # fmt: skip
"""All experiments by name."""


def run_experiment(name: str, settings: Settings | None = None) -> Result:
    """Run one experiment.

    Parameters
    ----------
    name : str
        One of `EXPERIMENTS`.
    settings : Settings, optional
        Size, seed and data files.

    Returns
    -------
    Result
    """
    experiment = EXPERIMENTS[check_choice("name", name, EXPERIMENTS)]
    module = importlib.import_module(f"reproduction.{experiment.module}")
    return getattr(module, experiment.function)(settings or Settings())
