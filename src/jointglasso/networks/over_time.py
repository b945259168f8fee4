"""What changes from each class to the next, where classes are points in time or stages."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from jointglasso._optional import require
from jointglasso.networks.differences import values_by_class
from jointglasso.networks.edge_list import as_objects
from jointglasso.validation import InputError

if TYPE_CHECKING:
    import pandas as pd

    from jointglasso.networks.joint import JointNetworks


def steps_table(networks: JointNetworks) -> pd.DataFrame:
    """Table of `JointNetworks.steps`."""
    if networks.n_classes < 2:
        raise InputError("Steps lead from one class to the next, and there is one.", "networks")
    values, names = values_by_class(networks), as_objects(networks.class_names)
    edges, same = networks.edge_list, networks.sameness
    rows = []
    for k in range(networks.n_classes - 1):
        one, two = values[:, k], values[:, k + 1]
        appeared, vanished = (one == 0) & (two != 0) & ~np.isnan(two), (one != 0) & (two == 0) & ~np.isnan(one)
        differ = np.abs(one - two) > 0
        certain = np.zeros(len(differ), dtype=bool)
        if same is not None:  # values that are equal on the penalised scale differ as partial correlations
            compared = same.at(edges.first[edges.starts], edges.second[edges.starts])
            both = ~np.isnan(one) & ~np.isnan(two)
            differ = (compared.clusters[:, k] != compared.clusters[:, k + 1]) & both & ((one != 0) | (two != 0))
            certain = differ & compared.differ_for_certain(k, k + 1)
        rows.append((differ.sum(), certain.sum(), appeared.sum(), vanished.sum(), np.nansum(np.abs(one - two))))
    table = np.array(rows, dtype=float)
    columns: dict[str, object] = {"before": names[:-1], "after": names[1:]}
    if networks.sameness is not None:
        columns |= {"changed": table[:, 0].astype(int), "certified": table[:, 1].astype(int)}
    columns |= {"appeared": table[:, 2].astype(int), "vanished": table[:, 3].astype(int), "size": table[:, 4]}
    return require("pandas", "networks").DataFrame(columns)
