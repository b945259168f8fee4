"""GEO DataSet files (`.soft`): a table of probes x samples, and subsets that tell the samples apart in several ways."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import numpy as np

from jointglasso._typing import FloatArray
from jointglasso._wording import count, listed, nearest
from jointglasso.errors import argument
from jointglasso.io.cells import NumberFormat
from jointglasso.io.grid import TableDraft
from jointglasso.io.labels import as_label
from jointglasso.io.opening import read_text
from jointglasso.io.options import Options
from jointglasso.validation import InputError

#: Errors of this module are about one argument.
wrong = partial(InputError, parameter="path")

_BEGIN, _END = "!dataset_table_begin", "!dataset_table_end"


@dataclass
class _DataSet:
    """What stands before the table."""

    title: str = ""
    subsets: list[dict[str, str]] = field(default_factory=list)


def read_soft(file: Path, options: Options) -> TableDraft:
    """Read a GDS file; probes with the same gene symbol are told apart by their probe id."""
    path = str(file)
    lines = enumerate((line.rstrip("\r") for line in read_text(file, None).split("\n")), start=1)
    dataset = _preamble(lines, path)
    header = next(lines, (0, ""))[1].split("\t")
    samples = [i for i, name in enumerate(header) if name.startswith("GSM")]
    if header[:2] != ["ID_REF", "IDENTIFIER"] or not samples:
        raise wrong(
            f"{path}: the table begins with the columns {listed(header, 3)} instead of ID_REF, IDENTIFIER and samples: "
            "download the GDS file again."
        )
    probes, genes, X = _table(lines, header, samples, NumberFormat(missing=options.missing_markers), path)
    names = [header[i] for i in samples]
    annotations = _annotations(dataset, names, path)
    for name in options.annotations:
        if name not in annotations:
            option = "label" if name == options.label else "subset"
            raise InputError(
                f"{path} has no subsets of type {name!r} ({nearest(name, list(annotations))}): correct "
                f"{argument(option)}.",
                option,
            )
    return TableDraft(
        path=path,
        X=X,
        variables=_distinct(genes, probes),
        samples=names,
        samples_named=True,
        annotations=annotations,
        label=options.label if options.labels is None else None,
        notes=[f"GEO DataSet {dataset.title!r}", f"labels to choose from: {listed(annotations) or 'none'}"],
    )


def _preamble(lines: Iterator[tuple[int, str]], path: str) -> _DataSet:
    """Read up to the beginning of the table."""
    dataset = _DataSet()
    entities = set()
    for _, line in lines:
        if line.startswith(_BEGIN):
            return dataset
        key, _, value = (part.strip() for part in line.partition("="))
        if line.startswith("^"):
            entities.add(key)
            if key == "^SUBSET":
                dataset.subsets.append({})
        elif key == "!dataset_title":
            dataset.title = value
        elif key.startswith("!subset_") and dataset.subsets:
            # A long list of samples may be given in several lines.
            before = dataset.subsets[-1].get(key)
            dataset.subsets[-1][key] = value if before is None else f"{before},{value}"
    if entities & {"^SERIES", "^PLATFORM", "^SAMPLE"}:
        raise wrong(
            f"{path} is a SOFT family file ({listed(sorted(entities), 3)}), not a GEO DataSet: download the GDS "
            "file, or the series matrix as a text table."
        )
    raise wrong(f"{path} has no line {_BEGIN!r}: it is no GEO DataSet (GDS) or cut off; download it again.")


def _table(
    lines: Iterator[tuple[int, str]], header: list[str], samples: list[int], number_format: NumberFormat, path: str
) -> tuple[list[str], list[str], FloatArray]:
    """Probe ids, gene symbols, and values with samples in rows."""
    probes: list[str] = []
    genes: list[str] = []
    rows: list[FloatArray] = []
    # Sample columns stand together as a rule; a slice of the cells is faster than picking them one by one.
    together = samples == list(range(samples[0], samples[-1] + 1))
    for number, line in lines:
        if line.startswith(_END):
            if not rows:
                raise wrong(f"{path}: the table has no probes: download it again.")
            return probes, genes, np.ascontiguousarray(np.array(rows).T)
        if not line:
            continue
        cells = line.split("\t")
        if len(cells) != len(header):
            raise wrong(
                f"{path}, line {number} has {count(len(cells), 'cell')}, the header {len(header)}: download it again."
            )
        wanted = cells[samples[0] : samples[-1] + 1] if together else [cells[i] for i in samples]
        values, words = number_format.row(wanted)
        if words:
            i, word = next(iter(words.items()))
            raise InputError(
                f"{path}, line {number}, column {header[samples[i]]!r}: {word!r} is not a finite number: correct it, "
                f"or say {argument('missing_markers', [word])} if it stands for a missing value.",
                "path",
                variable=header[samples[i]],
            )
        probes.append(cells[0].strip())
        genes.append(cells[1].strip())
        rows.append(values)
    raise wrong(f"{path} ends before the line {_END!r}: it is cut off; download it again.")


def _annotations(dataset: _DataSet, samples: list[str], path: str) -> dict[str, list[str | None]]:
    """Subset of each sample, by type of subset."""
    found: dict[str, dict[str, str]] = {}
    for subset in dataset.subsets:
        kind, description = subset.get("!subset_type", ""), subset.get("!subset_description", "")
        members = found.setdefault(kind, {})
        for sample in filter(None, (name.strip() for name in subset.get("!subset_sample_id", "").split(","))):
            if members.get(sample, description) != description:
                raise wrong(
                    f"{path}: sample {sample!r} is in the subsets {members[sample]!r} and {description!r} of type "
                    f"{kind!r}: correct the file, or give a label file with {argument('labels', ...)}."
                )
            members[sample] = description
    return {
        kind: [as_label(members[sample]) if sample in members else None for sample in samples]
        for kind, members in found.items()
    }


def _distinct(genes: list[str], probes: list[str]) -> list[str]:
    """Gene symbols; those of several probes, and those missing, with the probe id."""
    times = Counter(genes)
    nameless = NumberFormat()
    return [
        probe if nameless.is_missing(gene) else gene if times[gene] == 1 else f"{gene}|{probe}"
        for gene, probe in zip(genes, probes, strict=True)
    ]
