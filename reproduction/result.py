"""What an experiment is told and what it hands back."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

if TYPE_CHECKING:
    from matplotlib.figure import Figure

T = TypeVar("T")

#: One line of a table of results.
Row = Mapping[str, Any]

Holds = Literal["holds", "holds in part", "does not hold", "not judged"]


@dataclass(frozen=True)
class Settings:
    """How to run an experiment.

    Attributes
    ----------
    quick, full : bool
        Smaller and shorter, well under a minute; or the paper's size, which takes hours. Otherwise a size at which
        every method is run to its end in minutes.
    seed : int
        Seed of the drawn data.
    data, labels, genes : tuple of paths, tuple of str, path or None
        For the experiments on real data: files, what tells the classes in each (see `jointglasso.io.read_table`; a
        dash for a file that is one class), and a file with the names of the variables to keep.
    covariances : bool
        For real data: covariances as they are, as in the paper, instead of correlations.
    halved, left_out : tuple of str
        For real data: classes whose covariances are divided by two, as the paper does with its first, and classes
        that are not used.
    without_samples : str
        For real data: regular expression; samples whose names it matches from the beginning are not used.
    n_variables, classes, penalties, n_seeds : int, tuple of int, tuple of str, int
        For the experiments on drawn data (figure-times, figure-correctness, p10000): another number of variables,
        numbers of classes, columns of penalties ("P1" to "P3") and number of seeds than those of the size; 0 or
        empty: those of the size.
    workers : int
        Processes, of one thread each, in which the cases of these experiments run.
    limit : float
        Seconds after which a single run is stopped: the default solve of a setting of real data, with the gap that
        it has; a run of figure-times, without a time; the iterations of p10000, whose median is taken.
    """

    quick: bool = False
    full: bool = False
    seed: int = 0
    data: tuple[Path, ...] = ()
    labels: tuple[str, ...] = ()
    genes: Path | None = None
    covariances: bool = False
    halved: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    without_samples: str = ""
    n_variables: int = 0
    classes: tuple[int, ...] = ()
    penalties: tuple[str, ...] = ()
    n_seeds: int = 0
    workers: int = 1
    limit: float = 600.0

    def sized(self, quick: T, default: T, full: T) -> T:
        """The value that belongs to the chosen size."""
        return quick if self.quick else full if self.full else default

    def seeds(self, n: int) -> range:
        """The seeds of `n` data sets, or of as many as are asked for."""
        return range(self.seed, self.seed + (self.n_seeds or n))

    def command(self, name: str) -> str:
        """The command that runs an experiment with these settings."""
        words = [f"python -m reproduction {name}"]
        for option, value in self._options().items():
            values = value if isinstance(value, tuple) else (value,)
            words += [option if one is True else f"{option} {shlex.quote(_shown(one))}" for one in values]
        return " ".join(words)

    def _options(self) -> dict[str, Any]:
        """Options of the command that are not at their defaults, and the seed."""
        fields = {
            "--quick": self.quick, "--full": self.full, "--data": self.data, "--label": self.labels,
            "--genes": self.genes, "--covariances": self.covariances, "--halve": self.halved,
            "--without": self.left_out, "--without-samples": self.without_samples, "--variables": self.n_variables,
            "--classes": self.classes, "--penalties": self.penalties, "--seeds": self.n_seeds,
            "--workers": self.workers if self.workers > 1 else 0, "--limit": self.limit if self.limit != 600.0 else 0,
        }  # fmt: skip
        return {option: value for option, value in fields.items() if value} | {"--seed": self.seed}


@dataclass(frozen=True)
class Result:
    """Outcome of an experiment.

    Attributes
    ----------
    claim : str
        What the paper says.
    verdict : str
        What was found here, with numbers.
    holds : str
        Whether the claim holds, in a word or two.
    rows : sequence of mappings
        The data, all with the same keys.
    figures : mapping of str to Figure
        Pictures by the ending that their file names get; the main one has the empty ending.
    notes : sequence of str
        How the experiment differs from the paper's, and what is only estimated.
    """

    claim: str
    verdict: str
    holds: Holds
    rows: Sequence[Row]
    figures: Mapping[str, Figure]
    notes: Sequence[str] = field(default=())


def _shown(value: object) -> str:
    """A value of an option; of a file the name only, because its folder says nothing to others."""
    return value.name if isinstance(value, Path) else f"{value:g}" if isinstance(value, float) else str(value)


def judged(passed: int, total: int) -> Holds:
    """Word for a claim that held in `passed` of `total` cases."""
    if total == 0:
        return "not judged"
    return "holds" if passed == total else "holds in part" if passed else "does not hold"
