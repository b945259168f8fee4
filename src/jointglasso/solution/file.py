"""Solutions on disk: one `.npz` archive that `numpy.load` opens without pickles.

``metadata``
    uint8 (m,): JSON text in UTF-8 with ``format`` ("jointglasso solution"), ``format_version``, ``package_version``,
    names of classes and variables, and the numbers of the solution that are not arrays.
``<k>/column_start``, ``<k>/row``, ``<k>/value``
    Upper triangle, diagonal included, of the precision matrix of class k = 0, 1, ... in compressed columns (CSC).
``<k>/certified``
    bool (m,): whether the entry is proved to be non-zero.
``<k>/refit``
    float64 (m,), optional: the relaxed estimate at the stored entries.
``<k>/latent``
    float64 (p, r_k), optional: factor of the low-rank part.
``labels``
    int32 (K, p): the partition.
``group_gaps``
    float64 (G,): gap of each independent group.
``history``
    float64 (T, 7), one row an iteration: number, objective, gap (NaN where unknown), seconds, groups done, groups,
    fraction done.
``edge_clusters/pair``, ``edge_clusters/same``, ``edge_clusters/proved``
    Optional, with the compared classes in ``metadata``: int64 (m,), row times p plus column of each pair, ascending,
    and bool (m, T).
``absent``
    bool (K, p), optional: whether a class lacks a variable.

Reading a file executes nothing in it, and checks types, shapes and numbers. Whether the matrices are the
solution cannot be checked without the data: a certificate read from a file is as reliable as the file.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator
from dataclasses import asdict, astuple
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from jointglasso._files import atomic_write
from jointglasso._memory import available_memory
from jointglasso._typing import FloatArray
from jointglasso._version import __version__
from jointglasso.errors import InputError
from jointglasso.screening.partition import Partition
from jointglasso.solution.certificate import Certificate, History, Iteration, Status
from jointglasso.solution.edge_clusters import EdgeClusters
from jointglasso.solution.result import LowRank, Refit, RefitFailure, Solution

FORMAT = "jointglasso solution"
FORMAT_VERSION = 1


def save(solution: Solution, path: str | os.PathLike[str]) -> Path:
    """Write a solution in one step: a reader sees the old file or the new one."""
    target = Path(path)
    metadata = json.dumps(_metadata(solution), ensure_ascii=False).encode("utf-8")
    with atomic_write(target) as file:
        arrays: dict[str, Any] = {"metadata": np.frombuffer(metadata, dtype=np.uint8), **dict(_arrays(solution))}
        np.savez_compressed(file, **arrays)
    return target


def load(path: str | os.PathLike[str], *, max_bytes: int = 2**34) -> Solution:
    """Read a solution written by `Solution.save`.

    Parameters
    ----------
    path : path of the file
    max_bytes : int, default 16 GiB
        Refuse a file whose content would take more memory than this, or than is free.

    Notes
    -----
    The file holds what the solve computed and proved; it is not proved again. Solve once more with
    ``warm_start=load(path)`` where the file may have been changed by others.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> import jointglasso as jgl
    >>> S = [[[1.0, 0.5], [0.5, 1.0]], [[1.0, 0.4], [0.4, 1.0]]]
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "solution.jgl"
    >>> _ = jgl.solve(S, 0.1, 0.1).save(file)
    >>> jgl.load(file).n_edges
    [1, 1]
    """
    target = Path(path)
    try:
        stream = target.open("rb")
    except FileNotFoundError:
        raise FileNotFoundError(f"There is no file {target}: check the path.") from None
    except OSError as error:
        raise type(error)(
            error.errno, f"{target} cannot be read ({error.strerror}): give a file you may read."
        ) from None
    with stream:
        try:
            with np.load(stream, allow_pickle=False) as archive:
                n_bytes = sum(entry.file_size for entry in archive.zip.infolist())
                if n_bytes > min(max_bytes, available_memory() or max_bytes):
                    raise InputError(
                        f"The solution in {target} needs more memory than max_bytes allows or is free: raise max_bytes "
                        "if you trust it, or read it on a bigger machine.",
                        "max_bytes",
                    )
                return _read(_SolutionArchive(archive, target))
        except InputError:
            raise
        except Exception as error:  # a damaged archive can raise anything
            raise _damaged(target, f"{type(error).__name__}: {error}") from error


def _metadata(solution: Solution) -> dict[str, Any]:
    refit, low_rank = solution.refit, solution.low_rank
    metadata: dict[str, Any] = {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "package_version": __version__,
        "class_names": list(solution.class_names),
        "variable_names": list(solution.variable_names),
        "objective": solution.objective,
        "certificate": {k: v for k, v in vars(solution.certificate).items() if k != "group_gaps"},
        "status": {**asdict(solution.status), "converged": bool(solution.status.converged)},
        "n_iter": int(solution.n_iter),
        "timings": solution.timings,
        "solver": solution.solver,
        "screening": solution.screening,
        "methods": solution.methods,
        "parameters": solution.parameters,
    }
    if refit is not None:
        metadata["refit"] = {
            "residual": np.asarray(refit.residual).tolist(),
            "ridge": refit.ridge,
            "relaxation": list(refit.relaxation),
            "failures": [astuple(failure) for failure in refit.failures],
        }
    if solution.edge_clusters is not None:
        metadata["edge_clusters"] = {"neighbours": solution.edge_clusters.neighbours.tolist()}
    if low_rank is not None:
        metadata["low_rank"] = {"mu": low_rank.mu, "proved_zero": low_rank.proved_zero}
    return metadata


def _arrays(solution: Solution) -> Iterator[tuple[str, NDArray[Any]]]:
    for k, (Theta, certified) in enumerate(zip(solution.precision, solution.certified, strict=True)):
        upper = sparse.csc_array(sparse.triu(Theta))
        upper.sort_indices()
        yield f"{k}/column_start", upper.indptr.astype(np.int64)
        yield f"{k}/row", upper.indices.astype(np.int32)
        yield f"{k}/value", upper.data.astype(np.float64)
        entries = upper.indices, np.repeat(np.arange(upper.shape[1]), np.diff(upper.indptr))
        yield f"{k}/certified", np.asarray(certified.tocsr()[entries]).ravel().astype(bool)
        if solution.refit is not None:
            yield f"{k}/refit", np.asarray(solution.refit.precision[k].tocsr()[entries]).ravel()
    yield "labels", solution.partition.labels.astype(np.int32)
    yield "group_gaps", np.asarray(solution.certificate.group_gaps, dtype=np.float64)
    rows = [[np.nan if value is None else value for value in astuple(step)] for step in solution.history]
    yield "history", np.array(rows, dtype=np.float64).reshape(len(rows), 7)
    if solution.edge_clusters is not None:
        compared = solution.edge_clusters
        yield "edge_clusters/pair", compared.rows * len(solution.variable_names) + compared.columns
        yield "edge_clusters/same", np.asarray(compared.equal, dtype=bool)
        yield "edge_clusters/proved", np.asarray(compared.proved, dtype=bool)
    for k, factor in enumerate([] if solution.low_rank is None else solution.low_rank.factors):
        yield f"{k}/latent", np.asarray(factor, dtype=np.float64)
    if solution.absent is not None:
        yield "absent", solution.absent.astype(bool)


class _SolutionArchive:
    """Arrays of an archive, checked for their type and shape."""

    def __init__(self, archive: Any, path: Path) -> None:
        self.archive, self.path = archive, path

    def array(self, name: str, dtype: type, *shape: int | None) -> NDArray[Any]:
        """One array; a length of None in `shape` means any."""
        array: NDArray[Any] = self.archive[name]
        lengths = array.ndim == len(shape) and all(
            n is None or n == length for n, length in zip(shape, array.shape, strict=True)
        )
        if array.dtype != dtype or not lengths:
            raise _damaged(self.path, f"{name} has another type or shape than it should")
        return array

    def metadata(self) -> _Fields:
        values = json.loads(self.array("metadata", np.uint8, None).tobytes().decode("utf-8"))
        json.dumps(values, ensure_ascii=False).encode("utf-8")  # JSON can hold half characters, which no encoding knows
        if not isinstance(values, dict) or values.get("format") != FORMAT:
            raise InputError(
                f"{self.path} is no solution of jointglasso: give a file written by Solution.save.", "path"
            )
        if values.get("format_version") != FORMAT_VERSION:
            raise InputError(
                f"{self.path} has format version {values.get('format_version')!r}, this package reads version "
                f"{FORMAT_VERSION}: install the jointglasso that wrote it, version {values.get('package_version')!r}.",
                "path",
            )
        return _Fields(values, self.path)


class _Fields:
    """Fields of the metadata, each read as one type; a value of another type is damage."""

    def __init__(self, values: dict[str, Any], path: Path) -> None:
        self.values, self.path = values, path

    def get(self, name: str, kind: Any, least: float = -math.inf) -> Any:
        """Value of the type `kind`; numbers are at least `least`."""
        value = self.values.get(name)
        valid = isinstance(value, kind) and isinstance(value, bool) == (kind is bool)
        if not valid or (isinstance(value, int | float) and not value >= least):
            raise _damaged(self.path, f"{name} is not what it should be")
        return value

    def part(self, name: str) -> _Fields:
        """Fields of an object."""
        return _Fields(self.get(name, dict), self.path)

    def number(self, name: str, least: float = -math.inf) -> float:
        """A number of at least `least`."""
        return float(self.get(name, int | float, least))

    def names(self, name: str) -> tuple[str, ...]:
        """A list of words."""
        names = self.get(name, list)
        if not names or not all(isinstance(word, str) for word in names):
            raise _damaged(self.path, f"{name} is not what it should be")
        return tuple(names)


def _read(archive: _SolutionArchive) -> Solution:
    fields = archive.metadata()
    classes, variables = fields.names("class_names"), fields.names("variable_names")
    shape = len(classes), len(variables)
    labels = archive.array("labels", np.int32, *shape)
    refitted = "refit" in fields.values
    matrices = [_matrices(archive, k, labels[k], refitted) for k in range(len(classes))]
    precision, certified, estimates = (list(part) for part in zip(*matrices, strict=True))
    group_gaps = archive.array("group_gaps", np.float64, None)
    if not np.all(group_gaps >= 0):
        raise _damaged(archive.path, "group_gaps are not what they should be")
    absent = archive.array("absent", np.bool_, *shape) if "absent" in archive.archive else None
    compared = (
        _read_edge_clusters(archive, fields.part("edge_clusters"), *shape) if "edge_clusters" in fields.values else None
    )
    parameters = fields.part("parameters")
    for name in {"lambda1", "lambda2"} & set(parameters.values):
        parameters.number(name, 0)
    timings, methods, status = fields.part("timings"), fields.part("methods"), fields.part("status")
    return Solution(
        precision=precision,
        objective=fields.number("objective"),
        certificate=_certificate(fields.part("certificate"), group_gaps),
        partition=Partition(labels),
        status=Status(status.get("converged", bool), *(status.get(name, str) for name in ("reason", "remedy", "code"))),
        n_iter=fields.get("n_iter", int, 0),
        timings={name: timings.number(name, 0) for name in timings.values},
        history=History([_iteration(row) for row in archive.array("history", np.float64, None, 7)]),
        solver=fields.get("solver", str),
        screening=fields.get("screening", str),
        methods={name: methods.get(name, int, 0) for name in methods.values},
        class_names=classes,
        variable_names=variables,
        certified=certified,
        parameters=parameters.values,
        refit=_read_refit(fields.part("refit"), estimates) if refitted else None,
        edge_clusters=compared if compared is None or absent is None else compared.without(absent),
        absent=absent,
        low_rank=_read_low_rank(archive, fields.part("low_rank"), *shape) if "low_rank" in fields.values else None,
    )


def _matrices(archive: _SolutionArchive, k: int, labels: NDArray[Any], refitted: bool) -> tuple[Any, Any, Any]:
    """The symmetric precision matrix of class k, its proved entries, and its relaxed estimate or None."""
    p = len(labels)
    start, row = archive.array(f"{k}/column_start", np.int64, p + 1), archive.array(f"{k}/row", np.int32, None)
    value = archive.array(f"{k}/value", np.float64, len(row))
    estimate = archive.array(f"{k}/refit", np.float64, len(row)) if refitted else value
    proved = archive.array(f"{k}/certified", np.bool_, len(row))
    sparse.csc_array((value, row, start), shape=(p, p)).check_format(full_check=True)
    column = np.repeat(np.arange(p), np.diff(start))
    diagonal = start[1:] - 1  # the last entry of each column of an upper triangle
    ascending = np.all(np.diff(column * p + row) > 0) and np.all(np.diff(start) > 0)
    if not ascending or np.any(row[diagonal] != np.arange(p)):
        raise _damaged(archive.path, f"the entries of class {k} do not fit")
    if not np.isfinite([value, estimate]).all() or min(value[diagonal].min(), estimate[diagonal].min()) <= 0:
        raise _damaged(archive.path, f"class {k} holds numbers that no precision matrix has")
    if np.any(labels[row] != labels[column]):
        raise _damaged(archive.path, f"the blocks of class {k} do not fit its edges")
    above = row != column
    ends = np.concatenate([row, column[above]]), np.concatenate([column, row[above]])
    Theta, refit = (
        sparse.csc_array((np.concatenate([entries, entries[above]]), ends), shape=(p, p))
        for entries in (value, estimate)
    )
    above &= proved
    ends = np.concatenate([row[above], column[above]]), np.concatenate([column[above], row[above]])
    certified = sparse.csc_array((np.ones(len(ends[0]), dtype=bool), ends), shape=(p, p))
    return Theta, certified, refit if refitted else None


def _read_low_rank(archive: _SolutionArchive, fields: _Fields, n_classes: int, p: int) -> LowRank:
    factors = [archive.array(f"{k}/latent", np.float64, p, None) for k in range(n_classes)]
    if not all(np.isfinite(factor).all() and factor.shape[1] <= p for factor in factors):
        raise _damaged(archive.path, "the low-rank part is not what it should be")
    return LowRank(fields.number("mu", 0), factors, fields.get("proved_zero", bool))


def _read_edge_clusters(archive: _SolutionArchive, fields: _Fields, n_classes: int, p: int) -> EdgeClusters:
    neighbours = np.array(fields.get("neighbours", list), dtype=np.int64).reshape(-1, 2)
    pair = archive.array("edge_clusters/pair", np.int64, None)
    shape = len(pair), len(neighbours)
    equal, proved = (archive.array(f"edge_clusters/{name}", np.bool_, *shape) for name in ("same", "proved"))
    rows, columns = np.divmod(pair, p)
    fits = np.all(np.diff(pair) > 0) and np.all((rows >= 0) & (rows < columns)) and np.all(pair < p * p)
    one, two = neighbours.T
    if not fits or not np.all((one >= 0) & (one < two) & (two < n_classes)):
        raise _damaged(archive.path, "the comparison of the classes does not fit")
    return EdgeClusters(rows, columns, neighbours, equal, proved, n_classes)


def _certificate(fields: _Fields, group_gaps: FloatArray) -> Certificate:
    counts = {name: fields.get(name, int, 0) for name in ("edges_present", "edges_absent", "edges_undetermined")}
    numbers = fields.number("objective"), fields.number("gap", 0)
    rounding, unit = fields.number("rounding", 0), fields.number("unit", 0)
    # Added after files of this format were written.
    edge_gap = fields.number("edge_gap", 0) if "edge_gap" in fields.values else math.inf
    return Certificate(*numbers, group_gaps, **counts, rounding=rounding, unit=unit, edge_gap=edge_gap)


def _read_refit(fields: _Fields, precision: list[Any]) -> Refit:
    residual = np.array(fields.get("residual", list), dtype=float)
    failures = [
        RefitFailure(str(name), tuple(map(str, names)), str(why)) for name, names, why in fields.get("failures", list)
    ]
    relaxation = tuple(map(float, fields.get("relaxation", list)))
    return Refit(precision, residual, tuple(failures), fields.number("ridge", 0), relaxation)


def _iteration(row: FloatArray) -> Iteration:
    number, objective, gap, seconds, n_done, n_groups, fraction = row.tolist()
    return Iteration(
        int(number), objective, None if np.isnan(gap) else gap, seconds, int(n_done), int(n_groups), fraction
    )


def _damaged(path: Path, why: str) -> InputError:
    return InputError(
        f"{path} is damaged or no solution of jointglasso ({why}): write it again with Solution.save.", "path"
    )
