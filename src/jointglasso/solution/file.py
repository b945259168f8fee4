"""Solutions on disk: an open, compact format that is safe to read from anyone.

A file is a zip archive, which `numpy.load` opens as well. It holds

``solution.json``
    UTF-8 text: ``format`` ("jointglasso solution"), ``format_version`` (1), ``package_version``, the names of classes
    and variables, ``n_stored`` (entries stored for each class), and the numbers of the solution that are not arrays.
``<k>/column_start.npy``, ``<k>/row.npy``, ``<k>/value.npy``
    Upper triangle, diagonal included, of the precision matrix of class k = 0, 1, ... in compressed columns: int64
    (p + 1,), int32 (m,), float64 (m,). The entries of column j are ``column_start[j]:column_start[j + 1]``.
``<k>/certified.npy``
    uint8 (m,): 1 where the entry is proved to be non-zero.
``<k>/refit.npy``
    float64 (m,), if the text has ``refit``: the maximum likelihood estimate at the same places.
``labels.npy``
    int32 (K, p): the partition.
``group_gaps.npy``
    float64 (G,): gap of each independent group.
``history.npy``
    float64 (T, 7), one row an iteration: number, objective, gap (NaN where unknown), seconds, groups done, groups,
    share done.
``edge_clusters/pair.npy``, ``edge_clusters/equal.npy``, ``edge_clusters/proved.npy``
    If the text has ``edge_clusters``, with the classes that are compared in ``neighbours`` (T pairs) and the number m
    of pairs of variables: int64 (m,), row times p plus column of each, ascending, and uint8 (m, T).
``<k>/latent.npy``
    float64 (p, r_k), if the text has ``low_rank`` with the ranks r_k: factor of what latent variables explain.
``absent.npy``
    uint8 (K, p), if the text has a true ``lacking``: 1 where a class lacks a variable.

Nothing in a file is executed when it is read, and everything is checked: names, types and shapes before memory is taken
for them, numbers after. What cannot be checked without the data is whether the matrices are the solution: a certificate
read from a file is as good as the file. Whoever does not trust it solves again, with the solution as a warm start.
"""

from __future__ import annotations

import io
import json
import math
import os
import zipfile
from collections.abc import Iterator
from dataclasses import asdict, astuple
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from jointglasso._files import DAMAGE, atomic_write
from jointglasso._memory import available_memory
from jointglasso._typing import FloatArray
from jointglasso.errors import InputError
from jointglasso.screening.partition import Partition
from jointglasso.solution.certificate import Certificate, History, Iteration, Status
from jointglasso.solution.edge_clusters import EdgeClusters
from jointglasso.solution.low_rank import LowRank
from jointglasso.solution.refit import Refit, RefitFailure
from jointglasso.solution.result import Solution

FORMAT = "jointglasso solution"
FORMAT_VERSION = 1

#: The text of a file holds names and a few numbers; more than this is no solution.
_LARGEST_TEXT = 2**28

#: Files are the same, byte for byte, whenever they are written.
_DATE = (1980, 1, 1, 0, 0, 0)


def save(solution: Solution, path: str | os.PathLike[str]) -> Path:
    """Write a solution in one step: a reader sees the old file or the new one."""
    target = Path(path)
    with atomic_write(target) as file, zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=4) as archive:
        arrays = dict(_arrays(solution))
        stored = [len(arrays[f"{k}/row"]) for k in range(len(solution.precision))]
        _add(archive, "solution.json", json.dumps(_text(solution, stored), ensure_ascii=False).encode("utf-8"))
        for name, array in arrays.items():
            buffer = io.BytesIO()
            np.lib.format.write_array(buffer, array, allow_pickle=False)
            _add(archive, f"{name}.npy", buffer.getvalue())
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
    The file says what the solve found and proved; it is believed, not proved again. Solve once more with
    ``warm_start=load(path)`` where the file may have been changed by somebody else.

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
            with zipfile.ZipFile(stream) as archive:
                return _read(_Reader(archive, target, min(max_bytes, available_memory() or max_bytes)))
        except InputError:
            raise
        except (OSError, *DAMAGE) as error:  # a damaged archive sends its reader to places that are not there
            raise _damaged(target, f"{type(error).__name__}: {error}") from error


def _add(archive: zipfile.ZipFile, name: str, content: bytes) -> None:
    entry = zipfile.ZipInfo(name, _DATE)
    entry.compress_type = zipfile.ZIP_DEFLATED
    archive.writestr(entry, content)


def _text(solution: Solution, stored: list[int]) -> dict[str, Any]:
    from jointglasso._version import __version__

    certificate, same, low = solution.certificate, solution.edge_clusters, solution.low_rank
    return {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "package_version": __version__,
        "class_names": list(solution.class_names),
        "variable_names": list(solution.variable_names),
        "n_stored": stored,
        "n_groups": len(certificate.group_gaps),
        "n_history": len(solution.history),
        "objective": solution.objective,
        "certificate": {
            name: getattr(certificate, name)
            for name in ("objective", "gap", "edges_present", "edges_absent", "edges_undetermined", "rounding", "unit")
        },
        "status": {**asdict(solution.status), "converged": bool(solution.status.converged)},
        "n_iter": int(solution.n_iter),
        "timings": solution.timings,
        "solver": solution.solver,
        "screening": solution.screening,
        "methods": solution.methods,
        "parameters": solution.parameters,
        **({} if solution.refit is None else {"refit": _refit_text(solution.refit)}),
        **(
            {}
            if same is None
            else {"edge_clusters": {"neighbours": same.neighbours.tolist(), "n_pairs": len(same.rows)}}
        ),
        **({} if solution.absent is None else {"lacking": True}),
        **({} if low is None else {"low_rank": {"mu": low.mu, "ranks": low.ranks, "proved_zero": low.proved_zero}}),
    }


def _refit_text(refit: Refit) -> dict[str, Any]:
    return {
        "residual": np.asarray(refit.residual).tolist(),
        "ridge": refit.ridge,
        "failures": [[failure.class_name, list(failure.variables), failure.reason] for failure in refit.failures],
    }


def _arrays(solution: Solution) -> Iterator[tuple[str, NDArray[Any]]]:
    for k, (Theta, certified) in enumerate(zip(solution.precision, solution.certified, strict=True)):
        upper = sparse.csc_array(sparse.triu(Theta))
        upper.sort_indices()
        # Twice the entry where proved, the entry where not: the sum keeps the pattern of the precision matrix.
        ones = sparse.csc_array((np.ones(upper.nnz, dtype=np.int8), upper.indices, upper.indptr), shape=upper.shape)
        mask_missing = sparse.csc_array(ones + sparse.triu(certified.astype(np.int8)))
        mask_missing.sort_indices()
        yield f"{k}/column_start", upper.indptr.astype(np.int64)
        yield f"{k}/row", upper.indices.astype(np.int32)
        yield f"{k}/value", upper.data.astype(np.float64)
        yield f"{k}/certified", (mask_missing.data - 1).astype(np.uint8)
        if solution.refit is not None:
            columns = np.repeat(np.arange(upper.shape[1]), np.diff(upper.indptr))
            yield f"{k}/refit", np.asarray(solution.refit.precision[k].tocsr()[upper.indices, columns]).ravel()
    yield "labels", solution.partition.labels.astype(np.int32)
    yield "group_gaps", np.asarray(solution.certificate.group_gaps, dtype=np.float64)
    rows = [[np.nan if value is None else value for value in astuple(step)] for step in solution.history]
    yield "history", np.array(rows, dtype=np.float64).reshape(len(rows), 7)
    if solution.edge_clusters is not None:
        compared = solution.edge_clusters
        yield "edge_clusters/pair", compared.rows * len(solution.variable_names) + compared.columns
        yield "edge_clusters/same", np.ascontiguousarray(compared.equal, dtype=np.uint8)
        yield "edge_clusters/proved", np.ascontiguousarray(compared.proved, dtype=np.uint8)
    for k, factor in enumerate([] if solution.low_rank is None else solution.low_rank.factors):
        yield f"{k}/latent", np.ascontiguousarray(factor, dtype=np.float64)
    if solution.absent is not None:
        yield "absent", solution.absent.astype(np.uint8)


class _Reader:
    """The members of an archive, read with their type and shape known beforehand."""

    def __init__(self, archive: zipfile.ZipFile, path: Path, max_bytes: float) -> None:
        self.archive, self.path, self.left = archive, path, max_bytes

    def text(self) -> dict[str, Any]:
        with self.archive.open("solution.json") as member:
            content = member.read(_LARGEST_TEXT + 1)
        if len(content) > _LARGEST_TEXT:
            raise _damaged(self.path, "its text is too long")
        found = json.loads(content.decode("utf-8"))
        if not isinstance(found, dict) or found.get("format") != FORMAT:
            raise InputError(
                f"{self.path} is no solution of jointglasso: give a file written by Solution.save.", "path"
            )
        if found.get("format_version") != FORMAT_VERSION:
            raise InputError(
                f"{self.path} has format version {found.get('format_version')!r}, this package reads version "
                f"{FORMAT_VERSION}: install the jointglasso that wrote it, version {found.get('package_version')!r}.",
                "path",
            )
        return found

    def array(self, name: str, dtype: type, shape: tuple[int, ...]) -> NDArray[Any]:
        wanted = np.dtype(dtype)
        n_bytes = int(np.prod(shape, dtype=object)) * wanted.itemsize
        self.left -= n_bytes
        if self.left < 0 or n_bytes < 0:
            raise InputError(
                f"The solution in {self.path} needs more memory than max_bytes allows or is free: raise max_bytes if "
                "you trust it, or read it on a bigger machine.",
                "max_bytes",
            )
        with self.archive.open(f"{name}.npy") as member:
            if _header(member) != (shape, False, wanted):
                raise _damaged(self.path, f"{name} has another type or shape than it should")
            content = member.read(n_bytes)
            if len(content) < n_bytes or member.read(1):
                raise _damaged(self.path, f"{name} has another length than it should")
        return np.frombuffer(content, wanted).reshape(shape)


def _header(member: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    if np.lib.format.read_magic(member) != (1, 0):
        raise ValueError("an array of another version")
    return np.lib.format.read_array_header_1_0(member)


def _read(reader: _Reader) -> Solution:
    text = _Text(reader.text(), reader.path)
    classes, variables = text.names("class_names"), text.names("variable_names")
    stored = text.take("n_stored", list)
    if len(stored) != len(classes):
        raise _damaged(reader.path, "n_stored is not what it should be")
    matrices = [_matrices(reader, k, len(variables), stored[k], "refit" in text.fields) for k in range(len(classes))]
    precision, certified, refitted = (list(part) for part in zip(*matrices, strict=True))
    labels = reader.array("labels", np.int32, (len(classes), len(variables)))
    _require_blocks(precision, labels, reader.path)
    group_gaps = reader.array("group_gaps", np.float64, (text.count("n_groups"),)).copy()
    if not np.all(group_gaps >= 0):
        raise _damaged(reader.path, "group_gaps are not what they should be")
    history = reader.array("history", np.float64, (text.count("n_history"), 7))
    absent = None if text.fields.get("lacking") is not True else reader.array("absent", np.uint8, labels.shape) != 0
    edge_clusters = (
        _read_edge_clusters(reader, text.part("edge_clusters"), *labels.shape)
        if "edge_clusters" in text.fields
        else None
    )
    parameters = text.part("parameters")
    for name in {"lambda1", "lambda2"} & set(parameters.fields):
        parameters.number(name, least=0)
    return Solution(
        precision=precision,
        objective=text.number("objective"),
        certificate=_certificate(text.part("certificate"), group_gaps),
        partition=Partition(labels),
        status=_status(text.part("status")),
        n_iter=text.count("n_iter"),
        timings={name: text.part("timings").number(name, least=0) for name in text.part("timings").fields},
        history=History([_iteration(row) for row in history]),
        solver=text.take("solver", str),
        screening=text.take("screening", str),
        methods={name: text.part("methods").count(name) for name in text.part("methods").fields},
        class_names=classes,
        variable_names=variables,
        certified=certified,
        parameters=parameters.fields,
        refit=_read_refit(text.part("refit"), refitted) if "refit" in text.fields else None,
        edge_clusters=edge_clusters if edge_clusters is None or absent is None else edge_clusters.without(absent),
        absent=absent,
        low_rank=_read_low_rank(reader, text.part("low_rank"), *labels.shape) if "low_rank" in text.fields else None,
    )


def _read_low_rank(reader: _Reader, text: _Text, n_classes: int, p: int) -> LowRank:
    ranks = text.take("ranks", list)
    if len(ranks) != n_classes or not all(isinstance(rank, int) and 0 <= rank <= p for rank in ranks):
        raise _damaged(reader.path, "the ranks of the latent part are not what they should be")
    factors = [reader.array(f"{k}/latent", np.float64, (p, rank)).copy() for k, rank in enumerate(ranks)]
    if not all(np.isfinite(factor).all() for factor in factors):
        raise _damaged(reader.path, "the latent part holds what is no number")
    return LowRank(text.number("mu", least=0), factors, text.take("proved_zero", bool))


def _read_edge_clusters(reader: _Reader, text: _Text, n_classes: int, p: int) -> EdgeClusters:
    neighbours = np.array(text.take("neighbours", list), dtype=np.int64).reshape(-1, 2)
    m = text.count("n_pairs")
    pair = reader.array("edge_clusters/pair", np.int64, (m,))
    shape = m, len(neighbours)
    same, proved = (reader.array(f"edge_clusters/{name}", np.uint8, shape) != 0 for name in ("same", "proved"))
    rows, columns = np.divmod(pair, p)
    fits = np.all(np.diff(pair) > 0) and np.all((rows >= 0) & (rows < columns)) and np.all(pair < p * p)
    one, two = neighbours.T
    if not fits or not np.all((one >= 0) & (one < two) & (two < n_classes)):
        raise _damaged(reader.path, "the comparison of the classes does not fit")
    return EdgeClusters(rows, columns, neighbours, same, proved, n_classes)


class _Text:
    """Fields of the text, taken one by one with their kind; anything else is damage."""

    def __init__(self, fields: dict[str, Any], path: Path) -> None:
        self.fields, self.path = fields, path

    def take(self, name: str, kind: type) -> Any:
        value = self.fields.get(name)
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            raise _damaged(self.path, f"{name} is not what it should be")
        return _sound(value, self.path)

    def part(self, name: str) -> _Text:
        return _Text(self.take(name, dict), self.path)

    def number(self, name: str, *, least: float = -math.inf) -> float:
        value = self.fields.get(name)
        if isinstance(value, bool) or not isinstance(value, int | float) or not value >= least:
            raise _damaged(self.path, f"{name} is not what it should be")
        return float(value)

    def count(self, name: str) -> int:
        if self.take(name, int) < 0:
            raise _damaged(self.path, f"{name} is not what it should be")
        return int(self.fields[name])

    def names(self, name: str) -> tuple[str, ...]:
        given = self.take(name, list)
        if not given or not all(isinstance(word, str) for word in given):
            raise _damaged(self.path, f"{name} are not what they should be")
        return tuple(given)


def _sound(value: Any, path: Path) -> Any:
    """Text that can be shown and written again: JSON can hold half characters, which no encoding knows."""
    try:
        json.dumps(value, ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError:
        raise _damaged(path, "its text holds half characters") from None
    return value


def _certificate(text: _Text, group_gaps: FloatArray) -> Certificate:
    counts = {name: text.count(name) for name in ("edges_present", "edges_absent", "edges_undetermined")}
    rounding = text.number("rounding", least=0) if "rounding" in text.fields else 0.0
    return Certificate(text.number("objective"), text.number("gap", least=0), group_gaps, **counts, rounding=rounding)


def _status(text: _Text) -> Status:
    words = [text.take(name, str) if name in text.fields else "" for name in ("reason", "remedy", "code")]
    return Status(text.take("converged", bool), *words)


def _require_blocks(precision: list[Any], labels: NDArray[Any], path: Path) -> None:
    """No entry lies between two blocks of the partition."""
    for k, Theta in enumerate(precision):
        row, column = Theta.nonzero()
        if np.any(labels[k][row] != labels[k][column]):
            raise _damaged(path, f"the blocks of class {k} do not fit its edges")


def _read_refit(text: _Text, precision: list[Any]) -> Refit:
    residual = np.array(text.take("residual", list), dtype=float)
    if residual.ndim != 1:
        raise _damaged(text.path, "residual is not what it should be")
    failures = [
        RefitFailure(str(name), tuple(map(str, names)), str(why)) for name, names, why in text.take("failures", list)
    ]
    return Refit(precision, residual, tuple(failures), text.number("ridge", least=0))


def _matrices(reader: _Reader, k: int, p: int, n_stored: Any, refitted: bool) -> tuple[Any, Any, Any]:
    """The symmetric precision matrix of class k, its proved entries, and its maximum likelihood estimate or None."""
    if isinstance(n_stored, bool) or not isinstance(n_stored, int) or n_stored < 0:
        raise _damaged(reader.path, "n_stored is not what it should be")
    start = reader.array(f"{k}/column_start", np.int64, (p + 1,))
    row = reader.array(f"{k}/row", np.int32, (n_stored,))
    value = reader.array(f"{k}/value", np.float64, (n_stored,))
    estimate = reader.array(f"{k}/refit", np.float64, (n_stored,)) if refitted else value
    proved = reader.array(f"{k}/certified", np.uint8, (n_stored,)) != 0
    if start[0] != 0 or start[-1] != n_stored or np.any(np.diff(start) < 1):
        raise _damaged(reader.path, f"the columns of class {k} do not fit")
    column = np.repeat(np.arange(p), np.diff(start))
    last = start[1:] - 1
    falling = np.flatnonzero(np.diff(row) <= 0) + 1  # only a new column may start at a smaller row
    if np.any(row < 0) or np.any(row[last] != np.arange(p)) or not np.isin(falling, start[1:-1]).all():
        raise _damaged(reader.path, f"the rows of class {k} do not fit")
    for numbers in (value, estimate):
        if not np.isfinite(numbers).all() or np.any(numbers[last] <= 0):
            raise _damaged(reader.path, f"class {k} holds numbers that no precision matrix has")
    off = row != column
    both = np.concatenate([row, column[off]]), np.concatenate([column, row[off]])
    Theta = sparse.csc_array((np.concatenate([value, value[off]]), both), shape=(p, p))
    refit = sparse.csc_array((np.concatenate([estimate, estimate[off]]), both), shape=(p, p)) if refitted else None
    shown = off & proved
    ends = np.concatenate([row[shown], column[shown]]), np.concatenate([column[shown], row[shown]])
    return Theta, sparse.csc_array((np.ones(len(ends[0]), dtype=bool), ends), shape=(p, p)), refit


def _iteration(row: FloatArray) -> Iteration:
    number, objective, gap, seconds, done, groups, share = row.tolist()
    known = None if np.isnan(gap) else gap
    return Iteration(int(number), objective, known, seconds, int(done), int(groups), share)


def _damaged(path: Path, why: str) -> InputError:
    return InputError(
        f"{path} is damaged or no solution of jointglasso ({why}): write it again with Solution.save.", "path"
    )
