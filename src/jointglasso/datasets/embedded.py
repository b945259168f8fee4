"""A real data set inside the package."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.resources import files

import numpy as np
from numpy.typing import NDArray

from jointglasso._typing import FloatArray


@dataclass(frozen=True)
class LabelledTable:
    """Samples in rows, with a class label each."""

    X: FloatArray
    y: NDArray[np.str_]
    variable_names: tuple[str, ...]
    description: str


def load_rppa() -> LabelledTable:
    """Protein levels of 2,498 tumours of six cancers: 174 proteins, reverse-phase protein arrays.

    Returns
    -------
    LabelledTable
        `X` (2498, 174), and `y` with the labels BLCA (bladder, 344), KIRC (kidney clear cell, 478), LGG (lower grade
        glioma, 435), LUAD (lung adenocarcinoma, 365), OV (ovarian, 436) and UCEC (endometrial, 440).

    Notes
    -----
    Source: The Cancer Genome Atlas, level 3 RPPA, open access without restriction on use or redistribution. Kept are
    the 174 proteins measured in every sample of the six cohorts; values are rounded to three decimals.
    """
    with files("jointglasso.datasets").joinpath("tcga_rppa.npz").open("rb") as stream, np.load(stream) as stored:
        return LabelledTable(
            X=stored["thousandths"] / 1000.0,
            y=stored["class_names"][stored["class_code"]],
            variable_names=tuple(str(name) for name in stored["variable_names"]),
            description="TCGA reverse-phase protein arrays, 174 proteins in six cancers",
        )
