"""Real data for the experiments: the user's files, or the proteins inside the package."""

from __future__ import annotations

import gzip
import re
import time
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import numpy as np

from jointglasso._typing import FloatArray
from jointglasso.data import SampleCovariance
from jointglasso.datasets import load_rppa
from jointglasso.io import LabelledTable, read_table
from jointglasso.solution import Solution
from jointglasso.warm import warm_kernels
from reproduction.methods import run_default
from reproduction.result import Settings

#: The paper's settings 1 to 5 of (lambda1, lambda2) on real data.
SETTINGS = ((0.1, 0.5), (0.2, 0.2), (0.3, 0.1), (0.4, 0.05), (0.5, 0.01))

#: Certified relative gap of the default on the user's files (thousands of genes) and on the embedded proteins.
FILE_TOLERANCE, EMBEDDED_TOLERANCE = 1e-4, 1e-8

EMBEDDED_CLASSES = ("KIRC", "LUAD", "UCEC")

NO_LABEL = "-"
"""Label of a file that is one class."""

QUICK_VARIABLES = 100
"""Of the embedded data, in the quick variants."""

_SCALE_NOTES = {
    False: "Correlations, so that the penalties mean the same in every class; the paper takes covariances and divides "
    "those of its first class by 2 for the same purpose.",
    True: "Covariances, as in the paper, which divides those of its first class by 2; here all are taken as they are.",
}


@dataclass(frozen=True)
class RealData:
    """Correlations or covariances of real classes, and in words what they are and where they come from."""

    source: SampleCovariance
    origin: str
    scale: str


def tolerance(settings: Settings) -> float:
    """Certified relative gap to which the default of this package solves the settings."""
    return FILE_TOLERANCE if settings.data else EMBEDDED_TOLERANCE


@cache
def solve_setting(settings: Settings, number: int) -> tuple[Solution | None, float, float]:
    """Solution of one of the `SETTINGS` (None if it does not fit into memory), its seconds and processor seconds.

    Cached: table2 and figure-genes, run by one command, describe the same solutions.
    """
    source = load_real_data(settings).source
    warm_kernels()  # compilation is not timed
    began = time.perf_counter(), time.process_time()
    solution = run_default(
        source, *SETTINGS[number], seconds=20.0 if settings.quick else settings.limit, tol=tolerance(settings)
    )
    return solution, time.perf_counter() - began[0], time.process_time() - began[1]


@cache
def load_real_data(settings: Settings) -> RealData:
    """Read the files of the settings, or take three cancers of the package's own protein data.

    Classes of several files are put together on the genes whose symbols they share, upper and lower case alike; a file
    without labels is one class. Of several probes of one gene ("symbol|probe", as GEO files are read) the one with the
    largest variance over all samples of its file is taken, the first of equals. Variables with missing values, or
    constant in a class, are left out.
    """
    if not settings.data:
        return _embedded(settings)
    if settings.labels and len(settings.labels) != len(settings.data):
        raise ValueError(
            f"{len(settings.data)} data files and {len(settings.labels)} labels: give --label once for each --data, "
            "in the same order, or not at all; a dash for a file that is one class."
        )
    labels = settings.labels or (None,) * len(settings.data)
    tables = [
        one_probe_a_gene(_without(read_table(path, label=None if label == NO_LABEL else label), settings))
        for path, label in zip(settings.data, labels, strict=True)
    ]
    names = _common_names(tables, settings)
    by_class: dict[str, FloatArray] = {}
    for path, table in zip(settings.data, tables, strict=True):
        for name, X in _classes_of(table, names, path).items():
            if name in by_class:
                raise ValueError(f"Class {name!r} is in two of the data files: rename it in {path}.")
            by_class[name] = X
    _require_known(settings, set(by_class))
    by_class = {name: X for name, X in by_class.items() if name not in settings.left_out}
    varying = np.logical_and.reduce([np.ptp(X, axis=0) > 0 for X in by_class.values()])
    kept = [name for name, keep in zip(names, varying, strict=True) if keep]
    # Samples divided by the root of two have half the covariances.
    source = SampleCovariance(
        {name: X[:, varying] / (np.sqrt(2.0) if name in settings.halved else 1.0) for name, X in by_class.items()},
        scale="covariance" if settings.covariances else "correlation",
        variable_names=kept,
    )
    where = ", ".join(path.name for path in settings.data)
    return RealData(source, _origin(source, where) + _choices(settings), _scale_note(settings))


def one_probe_a_gene(table: LabelledTable) -> LabelledTable:
    """Keep, of the probes of one gene, the one with the largest variance, under the symbol of the gene."""
    complete = table.drop_missing("variables")
    symbols = [name.split("|")[0].upper() for name in complete.variable_names]
    variance = complete.X.var(axis=0)
    best: dict[str, int] = {}
    for n, symbol in enumerate(symbols):
        if symbol not in best or variance[n] > variance[best[symbol]]:
            best[symbol] = n
    kept = sorted(best.values())
    names = tuple(complete.variable_names[n].split("|")[0] for n in kept)
    return replace(complete, X=complete.X[:, kept], variable_names=names)


def _without(table: LabelledTable, settings: Settings) -> LabelledTable:
    """The table less the samples whose names match `without_samples`."""
    if not settings.without_samples:
        return table
    keep = np.array([re.match(settings.without_samples, name) is None for name in table.sample_names])
    names = tuple(name for name, kept in zip(table.sample_names, keep, strict=True) if kept)
    return replace(table, X=table.X[keep], y=None if table.y is None else table.y[keep], sample_names=names)


def _require_known(settings: Settings, classes: set[str]) -> None:
    for option, names in (("--halve", settings.halved), ("--without", settings.left_out)):
        for name in names:
            if name not in classes:
                raise ValueError(f"{option} {name}: the classes are {', '.join(sorted(classes))}.")


def _choices(settings: Settings) -> str:
    parts = [f"covariances of {name} divided by two" for name in settings.halved]
    parts += [f"without {name}" for name in settings.left_out]
    parts += [f"without samples named {settings.without_samples!r}"] if settings.without_samples else []
    return "".join(f"; {part}" for part in parts)


def _scale_note(settings: Settings) -> str:
    if settings.covariances and settings.halved:
        halved = ", ".join(settings.halved)
        return f"Covariances, those of {halved} divided by two, as the paper does with its first class."
    return _SCALE_NOTES[settings.covariances]


def read_names(path: Path) -> set[str]:
    """All words of a text file, plain or gzipped, split at line ends, commas and tabs; in upper case."""
    try:
        with gzip.open(path, "rt", encoding="utf-8") if path.suffix == ".gz" else path.open(encoding="utf-8") as lines:
            text = lines.read()
    except FileNotFoundError:
        raise FileNotFoundError(f"There is no file {path}: check the path given to --genes.") from None
    except (UnicodeDecodeError, gzip.BadGzipFile) as error:
        raise ValueError(f"{path} is no text file with names: give one name a line to --genes.") from error
    return {word.strip().strip('"').upper() for word in re.split(r"[\n\r,\t]", text)} - {""}


def _embedded(settings: Settings) -> RealData:
    table, n_variables = load_rppa(), QUICK_VARIABLES if settings.quick else None
    by_class = {name: table.X[table.y == name, :n_variables] for name in EMBEDDED_CLASSES}
    names = table.variable_names[:n_variables]
    source = SampleCovariance(
        by_class, scale="covariance" if settings.covariances else "correlation", variable_names=names
    )
    origin = _origin(source, "the TCGA proteins inside the package, which are not the paper's data")
    return RealData(source, origin, _SCALE_NOTES[settings.covariances])


def _origin(source: SampleCovariance, where: str) -> str:
    counts = [] if source.sample_sizes is None else source.sample_sizes.tolist()
    sizes = ", ".join(f"{name} {n}" for name, n in zip(source.class_names, counts, strict=True))
    return f"{source.n_variables:,} variables, {source.n_classes} classes (samples: {sizes}), from {where}"


def _common_names(tables: list[LabelledTable], settings: Settings) -> list[str]:
    """Names, in upper case, that all tables have, in the order of the first."""
    sets = [{name.upper() for name in table.variable_names} for table in tables]
    if settings.genes is not None:
        sets.append(read_names(settings.genes))
    common = set.intersection(*sets)
    names = list(dict.fromkeys(name.upper() for name in tables[0].variable_names if name.upper() in common))
    if len(names) < 2:
        files = ", ".join(str(path) for path in (*settings.data, *([settings.genes] if settings.genes else [])))
        raise ValueError(f"{files} share {len(names)} names of variables: give files that name the same genes.")
    return names


def _classes_of(table: LabelledTable, names: list[str], path: Path) -> dict[str, FloatArray]:
    position: dict[str, int] = {}
    for n, name in enumerate(table.variable_names):
        position.setdefault(name.upper(), n)  # of variables that differ in upper and lower case only, the first
    X = table.X[:, [position[name] for name in names]]
    if table.y is None:
        return {path.name.split(".")[0]: X}
    return {name: X[table.y == name] for name in table.classes}
