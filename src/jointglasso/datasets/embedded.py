"""Real data set distributed with the package."""

from __future__ import annotations

from importlib.resources import files

import numpy as np

from jointglasso.io.labelled_table import LabelledTable


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
    with files("jointglasso.datasets").joinpath("tcga_rppa.npz").open("rb") as stream, np.load(stream) as stored:
        X = stored["thousandths"] / 1000.0
        return LabelledTable(
            X=X,
            y=stored["class_names"][stored["class_code"]],
            variable_names=tuple(str(name) for name in stored["variable_names"]),
            sample_names=tuple(str(i + 1) for i in range(len(X))),
            source="TCGA reverse-phase protein arrays, 174 proteins in six cancers",
        )
