"""The experiments of the paper, run again: each gives data, figures, and whether the paper's claim holds."""

from __future__ import annotations

import importlib
from dataclasses import dataclass

from jointglasso.data.checks import check_choice
from reproduction.result import Result, Settings

__all__ = ["EXPERIMENTS", "Experiment", "Result", "Settings", "run_experiment"]


@dataclass(frozen=True)
class Experiment:
    """Where an experiment lives, what it is about, and about how long it takes in full."""

    module: str
    function: str
    title: str
    takes: str


EXPERIMENTS = {
    "table1": Experiment("table1", "table1", "Table 1: the first iterations of ADMM and HADMM", "a minute"),
    "figure-correctness": Experiment(
        "correctness", "figure_correctness", "ADMM and HADMM converge to the same objective", "hours"
    ),
    "figure-times": Experiment(
        "times", "figure_times", "Time of HADMM, LADMM and GADMM", "days; hours with --limit 60"
    ),
    "figure-complexity": Experiment(
        "complexity", "figure_complexity", "Complexity of the three screening rules", "minutes"
    ),
    "p10000": Experiment("large", "p10000", "Ten thousand variables: time of an iteration, complexity", "hours"),
    "toy": Experiment("toy", "toy", "The toy example: only hybrid thresholding splits", "seconds"),
    "uniform-drawback": Experiment("uniform", "uniform_drawback", "The drawback of uniform thresholding", "seconds"),
    "table2": Experiment("table2", "table2", "Table 2: real data", "minutes to hours"),
    "figure-genes": Experiment("genes", "figure_genes", "Networks of two classes on real data", "minutes to hours"),
    "avalanche": Experiment("avalanche", "avalanche", "Algorithm 1 against dynamic screening", "minutes"),
}
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
