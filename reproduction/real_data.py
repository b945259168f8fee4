"""Real data for the experiments: the user's files, or the proteins inside the package."""

from __future__ import annotations

import gzip
import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from jointglasso._typing import FloatArray
from jointglasso.covariance import SampleCovariance
from jointglasso.datasets import load_rppa
from jointglasso.io import LabelledTable, read_table
from reproduction.result import Settings

#: The paper's settings 1 to 5 of (lambda1, lambda2) on real data.
SETTINGS = ((0.1, 0.5), (0.2, 0.2), (0.3, 0.1), (0.4, 0.05), (0.5, 0.01))

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


def load_real_data(settings: Settings) -> RealData:
    """Read the files of the settings, or take three cancers of the package's own protein data.

    Classes of several files are put together on the variables whose names they share, upper and lower case alike; a
    file without labels is one class. Variables with missing values, or constant in a class, are left out.
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
        read_table(path, label=None if label == NO_LABEL else label).drop_missing("variables")
        for path, label in zip(settings.data, labels, strict=True)
    ]
    names = _common_names(tables, settings)
    by_class: dict[str, FloatArray] = {}
    for path, table in zip(settings.data, tables, strict=True):
        for name, X in _classes_of(table, names, path).items():
            if name in by_class:
                raise ValueError(f"Class {name!r} is in two of the data files: rename it in {path}.")
            by_class[name] = X
    varying = np.logical_and.reduce([np.ptp(X, axis=0) > 0 for X in by_class.values()])
    kept = [name for name, keep in zip(names, varying, strict=True) if keep]
    source = SampleCovariance(
        {name: X[:, varying] for name, X in by_class.items()},
        scale="covariance" if settings.covariances else "correlation",
        variable_names=kept,
    )
    where = ", ".join(path.name for path in settings.data)
    return RealData(source, _origin(source, where), _SCALE_NOTES[settings.covariances])


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
