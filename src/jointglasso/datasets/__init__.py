"""Real data sets distributed with the package."""

from __future__ import annotations

from importlib.resources import files
from typing import Any

import numpy as np

from jointglasso.io.labelled_table import LabelledTable

__all__ = ["load_expression", "load_rppa"]


def load_rppa() -> LabelledTable:
    """Protein levels of 2,498 tumours of six cancers: 174 proteins, reverse-phase protein arrays.

    Returns
    -------
    jointglasso.io.LabelledTable
        `X` (2498, 174), and `y` with the labels BLCA (bladder, 344), KIRC (kidney clear cell, 478), LGG (lower grade
        glioma, 435), LUAD (lung adenocarcinoma, 365), OV (ovarian, 436) and UCEC (endometrial, 440).

    Notes
    -----
    Source: The Cancer Genome Atlas, level 3 RPPA, open access without restriction on use or redistribution. Kept are
    the 174 proteins measured in every sample of the six cohorts; values are rounded to three decimals.

    Examples
    --------
    >>> import jointglasso as jgl
    >>> source = jgl.datasets.load_rppa().to_source(scale="correlation")
    >>> source.n_classes, source.n_variables
    (6, 174)
    """
    return _table(_stored("tcga_rppa.npz"), "TCGA reverse-phase protein arrays, 174 proteins in six cancers")


def load_expression() -> tuple[LabelledTable, dict[str, str]]:
    """Expression of 61 genes in 195 tumours of three cancers, and the biological process of each gene.

    Returns
    -------
    table : jointglasso.io.LabelledTable
        `X` (195, 61), log2 ratios, and `y` with the labels KIRC (kidney clear cell, 72), READ (rectum, 69) and UCEC
        (endometrium, 54).
    processes : dict of str
        Process or cell type of which each gene is a marker, such as "cell cycle" or "T cells"; ten in all.

    Notes
    -----
    Source: The Cancer Genome Atlas, level 3 gene expression (Agilent G4502A), open access without restriction on use
    or redistribution. The genes are textbook markers, chosen before any network was estimated; values are rounded to
    three decimals.

    Examples
    --------
    >>> import jointglasso as jgl
    >>> table, processes = jgl.datasets.load_expression()
    >>> table.X.shape, processes["MKI67"]
    ((195, 61), 'cell cycle')
    """
    stored = _stored("tcga_expression.npz")
    table = _table(stored, "TCGA gene expression (Agilent), 61 marker genes in three cancers")
    return table, dict(zip(table.variable_names, stored["processes"].tolist(), strict=True))


def _stored(file: str) -> dict[str, Any]:
    with files("jointglasso.datasets").joinpath(file).open("rb") as stream, np.load(stream) as arrays:
        return dict(arrays)


def _table(stored: dict[str, Any], source: str) -> LabelledTable:
    X = stored["thousandths"] / 1000.0
    return LabelledTable(
        X=X,
        y=stored["class_names"][stored["class_code"]],
        variable_names=tuple(str(name) for name in stored["variable_names"]),
        sample_names=tuple(str(i + 1) for i in range(len(X))),
        source=source,
    )
