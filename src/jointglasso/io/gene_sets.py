"""Gene sets in the .gmt format of MSigDB: a line for each set with its name, a description and its genes, by tabs."""

from __future__ import annotations

import os

from jointglasso.io.opening import read_text, require_file, wrong


def read_gene_sets(path: str | os.PathLike[str]) -> dict[str, list[str]]:
    """Genes of each set of a .gmt file, by the name of the set.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> import jointglasso as jgl
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "hallmarks.gmt"
    >>> _ = file.write_text(chr(9).join(["HYPOXIA", "MSigDB", "VEGFA", "CA9"]))
    >>> jgl.io.read_gene_sets(file)
    {'HYPOXIA': ['VEGFA', 'CA9']}
    """
    file = require_file(path)
    lines = [line.split("\t") for line in read_text(file, None).splitlines() if line.strip()]
    short = next((number for number, cells in enumerate(lines, 1) if len(cells) < 3), None)
    if short is not None:
        raise wrong(f"Set {short} of {file.name!r} has no genes: a line of a .gmt file is name, description, genes.")
    return {name: [gene for gene in genes if gene] for name, _, *genes in lines}
