"""GEO DataSet files (`.soft`): a table of probes x samples, and subsets that classify the samples in several ways."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np

from jointglasso._wording import count, listed, nearest
from jointglasso.data.checks import InputError
from jointglasso.errors import argument
from jointglasso.io.grid import AnnotatedSamples, NumberFormat, as_label, build_grid
from jointglasso.io.opening import read_text
from jointglasso.io.reading_options import ReadOptions

wrong = partial(InputError, parameter="path")

_BEGIN, _END = "!dataset_table_begin", "!dataset_table_end"


def read_soft(file: Path, options: ReadOptions) -> AnnotatedSamples:
    """Read a GDS file; probes of one gene symbol are distinguished by their probe id."""
    path = str(file)
    lines = read_text(file, None).replace("\r\n", "\n").split("\n")
    begin, end = _table_bounds(lines, path)
    header = lines[begin].split("\t")
    samples = [name for name in header if name.startswith("GSM")]
    if header[:2] != ["ID_REF", "IDENTIFIER"] or not samples:
        columns = f"the columns {listed(header, 3)} instead of ID_REF, IDENTIFIER and samples"
        raise wrong(f"{path}: the table begins with {columns}: download the GDS file again.")
    if not any(lines[begin + 1 : end]):
        raise wrong(f"{path}: the table has no probes: download it again.")
    chosen = [0, *(j for j, name in enumerate(header) if name.startswith("GSM"))]
    genes: list[str] = []

    def rows() -> Iterator[tuple[int, list[str]]]:
        for line, text in enumerate(lines[begin + 1 : end], start=begin + 2):
            cells = text.split("\t")
            if text and len(cells) != len(header):
                length = count(len(cells), "cell")
                raise wrong(f"{path}, line {line} has {length}, the header {len(header)}: download it again.")
            if text:
                genes.append(cells[1].strip())
                yield line, [cells[j] for j in chosen]

    number_format = NumberFormat(missing_markers=options.missing_markers)
    grid = build_grid(path, [header[j] for j in chosen], rows(), (), number_format)
    for row, column in np.argwhere(grid.is_word[:, 1:]).tolist():
        grid.require_number(row, column + 1)
    title, annotations = _annotations("\n".join(lines[:begin]), samples, path)
    for name in options.annotation_names:
        if name not in annotations:
            hint, option = nearest(name, list(annotations)), options.option_of(name)
            raise InputError(f"{path} has no subsets of type {name!r} ({hint}): correct {argument(option)}.", option)
    notes = [f"GEO DataSet {title!r}", f"labels to choose from: {listed(annotations) or 'none'}"]
    X, names = np.ascontiguousarray(grid.values[:, 1:].T), _distinct(genes, grid.columns[0])
    return AnnotatedSamples(path, X, names, samples, True, annotations, options.inner_label, notes)


def _table_bounds(lines: list[str], path: str) -> tuple[int, int]:
    """Positions of the header of the table, and of the line behind it."""
    begin = next((i for i, line in enumerate(lines) if line.startswith(_BEGIN)), None)
    if begin is None:
        entities = {line.partition("=")[0].strip() for line in lines if line.startswith("^")}
        if entities & {"^SERIES", "^PLATFORM", "^SAMPLE"}:
            family = f"a SOFT family file ({listed(sorted(entities), 3)}), not a GEO DataSet"
            raise wrong(f"{path} is {family}: download the GDS file, or the series matrix as a text table.")
        raise wrong(f"{path} has no line {_BEGIN!r}: it is no GEO DataSet (GDS) or cut off; download it again.")
    end = next((i for i in range(begin + 1, len(lines)) if lines[i].startswith(_END)), None)
    if end is None:
        raise wrong(f"{path} ends before the line {_END!r}: it is cut off; download it again.")
    return begin + 1, end


def _annotations(preamble: str, samples: list[str], path: str) -> tuple[str, dict[str, list[str | None]]]:
    """Title of the data set, and the subset of each sample by type of subset."""
    title = re.search(r"^!dataset_title *= *(.*)$", preamble, re.MULTILINE)
    by_type: dict[str, dict[str, str]] = {}
    for block in re.split(r"^\^SUBSET.*$", preamble, flags=re.MULTILINE)[1:]:
        block = block.partition("\n^")[0]
        fields = re.findall(r"^!subset_(\w+) *= *(.*?) *$", block, re.MULTILINE)
        values = dict(fields)
        description, kind = values.get("description", ""), values.get("type", "")
        members = by_type.setdefault(kind, {})
        # A long list of samples can extend over several lines.
        names = ",".join(value for key, value in fields if key == "sample_id").split(",")
        for sample in filter(None, map(str.strip, names)):
            if members.setdefault(sample, description) != description:
                subsets = f"the subsets {members[sample]!r} and {description!r} of type {kind!r}"
                remedy = f"correct the file, or give a label file with {argument('labels', ...)}"
                raise wrong(f"{path}: sample {sample!r} is in {subsets}: {remedy}.")
    annotations: dict[str, list[str | None]] = {
        kind: [as_label(members[sample]) if sample in members else None for sample in samples]
        for kind, members in by_type.items()
    }
    return title[1].strip() if title else "", annotations


def _distinct(genes: list[str], probes: list[str]) -> list[str]:
    """Gene symbols; those of several probes, and missing ones, with the probe id."""
    n_probes, symbols = Counter(genes), NumberFormat()
    return [
        probe if symbols.is_missing(gene) else gene if n_probes[gene] == 1 else f"{gene}|{probe}"
        for gene, probe in zip(genes, probes, strict=True)
    ]
