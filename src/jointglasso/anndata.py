"""Joint networks of the groups of cells in an AnnData object.

Results are stored in the conventional places: matrices between genes in ``varp``, parameters and certificate in
``uns``. Keys contain the number of a class, not its label, since a label such as "CD8+/CD45RA+" is not a valid key.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from jointglasso._optional import require
from jointglasso._typing import BoolArray
from jointglasso._wording import listed
from jointglasso.data import CovarianceSource, SampleCovariance
from jointglasso.data.checks import InputError, InputTypeError, check_choice, known_arguments
from jointglasso.data.effects import without_covariates
from jointglasso.data.naming import final_names
from jointglasso.data.prepare import Preparation
from jointglasso.data.samples import Samples, matrix_of
from jointglasso.data.table_checks import SampleRows, deferred, label_rows, with_rows
from jointglasso.engine import solve
from jointglasso.networks import JointNetworks
from jointglasso.networks.edge_list import partial_correlation_matrix
from jointglasso.selection.relaxed import with_refit
from jointglasso.selection.select_penalty import WEIGHTS, select
from jointglasso.solution import EdgeClusters, Solution

if TYPE_CHECKING:
    from anndata import AnnData


@known_arguments(solve, select)
def fit(
    adata: AnnData,
    groupby: str = "condition",
    *,
    lambda1: float | None = None,
    lambda2: float | None = None,
    mask_var: Any = None,
    layer: str | None = None,
    key_added: str = "jgl",
    classes: Any = None,
    scale: str = "correlation",
    association: str = "pearson",
    constant: str = "refuse",
    covariates: Sequence[str] = (),
    weights: Any = WEIGHTS,
    **options: Any,
) -> Solution:
    """Estimate a network of genes for each group of cells and store them in `adata`.

    Parameters
    ----------
    adata : AnnData
        Cells in rows, genes in columns.
    groupby : str, default "condition"
        Column of ``adata.obs`` with the class of each cell.
    lambda1, lambda2 : float, optional
        Penalties, as in `jointglasso.solve`; chosen by `jointglasso.select` by default.
    mask_var : str or bool array (p,), optional
        Genes to use: a column of ``adata.var`` such as "highly_variable", or a mask; all by default.
    layer : str, optional
        Layer to read instead of ``adata.X``. Either may be sparse or on disk; each class is made dense in turn.
    key_added : str, default "jgl"
        Prefix of the keys that are added.
    classes : sequence of str, optional
        Use these classes only; all by default. They are in order of appearance.
    scale : {"correlation", "covariance"}
        Correlations (every gene scaled to unit variance within each class), or covariances.
    association : {"pearson", "spearman", "nonparanormal", "mixed", "zero_inflated"}
        Kind of correlation, as in `jointglasso.select`; "zero_inflated" is for genes that many cells lack.
    constant : {"refuse", "isolate", "drop"}
        Treatment of genes that are constant within a class: refuse them, isolate them in that class, or drop them from
        the estimation, without edges in any class.
    covariates : sequence of str
        Columns of ``adata.obs`` (batch, depth, donor) that are regressed out of the genes within each class.
    weights : None, str, array (K,) or dict
        Weight of each class in the likelihood, as in `jointglasso.solve`; the root of the number of its cells by
        default, as in `jointglasso.select`.
    **options
        Further arguments of `jointglasso.solve`, such as ``penalty`` or ``tol``, and of `jointglasso.select`.

    Returns
    -------
    Solution
        The solution over the genes used. Stored are, for class number k, ``varp["jgl_<k>_precision"]``, the maximum
        likelihood on the support, with its ``varp["jgl_<k>_partial_correlation"]`` (zero diagonal; of genes left
        out the precision is 1), and ``varp["jgl_<k>_penalized_precision"]``; the column ``var["jgl_used"]``; and in
        ``uns["jgl"]`` the class labels, parameters, status and certificate. With a fused penalty
        ``varp["jgl_comparison"]`` holds the row number (from 1) of each pair of genes in
        ``uns["jgl"]["edge_clusters"]``: whether its values are equal in each two neighbouring classes, and whether that
        is certified.

    Examples
    --------
    >>> import anndata, numpy as np, pandas as pd
    >>> import jointglasso as jgl
    >>> rng = np.random.default_rng(0)
    >>> cells = pd.DataFrame({"condition": ["ill", "well"] * 30}, index=[f"cell{i}" for i in range(60)])
    >>> adata = anndata.AnnData(rng.normal(size=(60, 3)), obs=cells)
    >>> solution = jgl.anndata.fit(adata, "condition", lambda1=0.1, lambda2=0.1)
    >>> solution.class_names, sorted(adata.varp)[0]
    (('ill', 'well'), 'jgl_0_certified')
    """
    if not isinstance(key_added, str) or not key_added or "/" in key_added:
        raise InputError(
            f"key_added={key_added!r} must be a word without '/', which files cannot hold in a key.", "key_added"
        )
    check_choice("constant", constant, ("refuse", "isolate", "drop"))
    cells = samples_of_cells(adata, groupby, layer, classes)
    used = masked(adata, mask_var)
    if constant == "drop":
        used &= cells.varying
        if not used.any():
            raise InputError("Every variable is constant within some class: there is nothing to estimate.", "constant")
    treatment = "isolate" if constant == "isolate" else "refuse"
    if not used.all():
        cells = cells.restricted_to(np.flatnonzero(used))
    if len(covariates):
        cells = without_covariates(cells, annotations_of_cells(adata, cells, covariates, "covariates"), association)
    if (lambda1 is None) != (lambda2 is None):
        raise InputError("Give both lambda1 and lambda2, or neither to have them chosen.", "lambda1")
    if lambda1 is None or lambda2 is None:
        preparation: dict[str, Any] = {"scale": scale, "association": association, "constant": treatment}
        solution = select(cells, weights=weights, **preparation, **options).solution
        lambda1, lambda2 = (float(solution.parameters[name]) for name in ("lambda1", "lambda2"))
    else:
        source: CovarianceSource = (
            SampleCovariance(cells, scale=scale, constant=treatment)  # reads one class at a time
            if association == "pearson"
            else Preparation(scale=scale, association=association, constant=treatment)(cells).source
        )
        solution = with_refit(source, solve(source, lambda1, lambda2, weights=weights, **options))
    parameters: dict[str, Any] = {"groupby": groupby, "layer": layer, "lambda1": lambda1, "lambda2": lambda2}
    parameters |= {
        "scale": scale,
        "association": association,
        "constant": constant,
        "covariates": list(covariates) or None,
        "weights": weights,
    }
    _store(adata, key_added, solution, used, parameters | options)
    return solution


def networks(adata: AnnData, key: str = "jgl") -> JointNetworks:
    """Read the networks stored by `fit`, restricted to the genes that are still in `adata`.

    Parameters
    ----------
    adata : AnnData
        Object that `fit` was called with, or one read from its file.
    key : str, default "jgl"
        The `key_added` of that call.

    Examples
    --------
    >>> import anndata, numpy as np, pandas as pd
    >>> import jointglasso as jgl
    >>> rng = np.random.default_rng(0)
    >>> cells = pd.DataFrame({"condition": ["ill", "well"] * 30}, index=[f"cell{i}" for i in range(60)])
    >>> adata = anndata.AnnData(rng.normal(size=(60, 3)), obs=cells)
    >>> solution = jgl.anndata.fit(adata, "condition", lambda1=0.1, lambda2=0.1)
    >>> jgl.anndata.networks(adata).class_names
    ('ill', 'well')
    """
    require_anndata(adata)
    if key not in adata.uns or "class_names" not in adata.uns[key]:
        raise InputError(f"There are no networks under uns[{key!r}]: call jointglasso.anndata.fit first.", "key")
    names = [str(name) for name in adata.uns[key]["class_names"]]
    precision_keys = [_varp_key(key, k, "precision") for k in range(len(names))]
    missing = [name for name in precision_keys if name not in adata.varp]
    if missing:
        raise InputError(f"varp[{missing[0]!r}] is missing, but uns[{key!r}] lists its class: call fit again.", "key")
    certified = [adata.varp.get(_varp_key(key, k, "certified")) for k in range(len(names))]
    return JointNetworks(
        [adata.varp[name] for name in precision_keys],
        names,
        list(adata.var_names),
        certified=None if any(matrix is None for matrix in certified) else certified,
        edge_clusters=_stored_clusters(adata, key, len(names)),
    )


def require_anndata(adata: Any) -> None:
    """Refuse anything but an AnnData object."""
    if not isinstance(adata, require("anndata", "anndata").AnnData):
        raise InputTypeError(f"adata must be an AnnData object, not {type(adata).__name__}.", "adata")


def samples_of_cells(adata: Any, groupby: str, layer: str | None = None, classes: Any = None) -> Samples:
    """Lazy samples of the cells of an AnnData object by class, in order of appearance; only the labels are read."""
    require_anndata(adata)
    column = _columns_of_obs(adata, [groupby], "groupby")[groupby]
    if layer is not None and layer not in adata.layers:
        names = [name for name in adata.layers if name is not None]  # None is X, from anndata 0.13 on
        raise InputError(f"There is no layer {layer!r}; the layers are {listed(names) or 'none'}.", "layer")
    if classes is None and column.isna().any():
        raise InputError(
            f"{int(column.isna().sum())} cells have no label in obs[{groupby!r}]: label them, leave them out, or name "
            "the classes to use.",
            "groupby",
        )
    known = np.flatnonzero(~column.isna().to_numpy())
    rows = {name: known[members] for name, members in label_rows(len(known), column.iloc[known]).items()}
    requested = list(rows) if classes is None else [classes] if isinstance(classes, str) else [*map(str, classes)]
    if unknown := sorted(set(requested).difference(rows)):
        raise InputError(f"obs[{groupby!r}] has no class {unknown[0]!r}; its classes are {listed(rows)}.", "classes")
    values = adata.X if layer is None else adata.layers[layer]
    if values is None:
        raise InputError("adata.X is empty: name a layer.", "layer")
    table = with_rows(values)
    chosen = tuple(name for name in rows if name in requested)
    parts = [deferred(SampleRows(table, rows[name]), matrix_of(name)) for name in chosen]
    return Samples(parts, chosen, final_names(_distinct_names(adata.var_names), None, adata.n_vars))


def annotations_of_cells(adata: Any, cells: Samples, names: Sequence[str], parameter: str) -> Any:
    """Columns `names` of ``adata.obs``, with a row for each of the cells that `samples_of_cells` read."""
    rows = [part.row_numbers for part in cells.parts if isinstance(part, SampleRows)]
    return _columns_of_obs(adata, names, parameter).iloc[np.concatenate(rows)]


def _columns_of_obs(adata: Any, names: Sequence[str], parameter: str) -> Any:
    unknown = [name for name in names if name not in adata.obs]
    if unknown:
        raise InputError(f"obs has no column {unknown[0]!r}; its columns are {listed(adata.obs.columns)}.", parameter)
    return adata.obs[list(names)]


def _distinct_names(names: Any) -> list[str]:
    """Variable names as strings; duplicates get their position appended to be unique."""
    words = [str(name) for name in names]
    counts = Counter(words)
    return [word if counts[word] == 1 else f"{word} (variable {i})" for i, word in enumerate(words)]


def masked(adata: Any, mask_var: Any) -> BoolArray:
    """Mask (p,) of the genes to use, from a column of ``adata.var`` or an array."""
    require_anndata(adata)
    if mask_var is None:
        return np.ones(adata.n_vars, dtype=bool)
    if isinstance(mask_var, str) and mask_var not in adata.var:
        raise InputError(f"var has no column {mask_var!r}; its columns are {listed(adata.var.columns)}.", "mask_var")
    mask = np.array(adata.var[mask_var] if isinstance(mask_var, str) else mask_var, dtype=bool)
    if mask.shape != (adata.n_vars,) or mask.sum() < 2:
        raise InputError(
            f"mask_var must choose at least two of the {adata.n_vars} genes, one value for each.", "mask_var"
        )
    return mask


def _varp_key(key: str, k: int, what: str) -> str:
    return f"{key}_{k}_{what}"


def _store(adata: Any, key: str, solution: Solution, used: BoolArray, parameters: dict[str, Any]) -> None:
    """Store the results in types that survive writing and reading of the file."""
    _remove_stored(adata, key)
    index = np.flatnonzero(used)
    for what, matrices in (("precision", solution.estimate), ("penalized_precision", solution.precision)):
        for k, Theta in enumerate(matrices):
            full = _embed(Theta, index, len(used))
            adata.varp[_varp_key(key, k, what)] = sparse.csr_matrix(full + sparse.diags_array(1.0 - used))
    for k, Theta in enumerate(solution.estimate):  # the diagonal is zero, since others would be loops
        adata.varp[_varp_key(key, k, "partial_correlation")] = _embed(
            partial_correlation_matrix(Theta), index, len(used)
        )
    for k, proved in enumerate(solution.certified or []):
        adata.varp[_varp_key(key, k, "certified")] = _embed(proved, index, len(used))
    adata.var[f"{key}_used"] = used
    adata.uns[key] = _summary(solution, parameters)
    if (clusters := solution.edge_clusters) is not None:
        positions = (index[clusters.rows], index[clusters.columns])
        rows = sparse.coo_array((np.arange(1, len(clusters.rows) + 1), positions), shape=(len(used), len(used)))
        adata.varp[f"{key}_comparison"] = sparse.csr_matrix(rows + rows.T)
        stored = {"neighbours": clusters.neighbours, "same": clusters.equal, "proved": clusters.proved}
        adata.uns[key]["edge_clusters"] = stored


def _stored_clusters(adata: Any, key: str, n_classes: int) -> EdgeClusters | None:
    """Stored equalities between classes of the remaining genes, whose order may have changed."""
    if "edge_clusters" not in adata.uns[key] or f"{key}_comparison" not in adata.varp:
        return None
    known = {name: np.asarray(values) for name, values in adata.uns[key]["edge_clusters"].items()}
    upper = sparse.triu(sparse.coo_array(adata.varp[f"{key}_comparison"]), 1).tocoo()
    order = np.lexsort((upper.col, upper.row))
    stored_row = upper.data[order].astype(np.int64) - 1
    rows, columns = (index[order].astype(np.int64) for index in (upper.row, upper.col))
    return EdgeClusters(
        rows, columns, known["neighbours"], known["same"][stored_row], known["proved"][stored_row], n_classes
    )


def _embed(matrix: Any, index: Any, size: int) -> Any:
    """Embed a matrix over the variables `index` into one over all `size` variables."""
    entries = matrix.tocoo()
    return sparse.csr_matrix((entries.data, (index[entries.row], index[entries.col])), shape=(size, size))


def _remove_stored(adata: Any, key: str) -> None:
    """Remove the results of an earlier fit, which may have had more classes."""
    for name in list(adata.varp):
        if re.fullmatch(rf"{re.escape(key)}_(\d+_\w+|comparison)", name):
            del adata.varp[name]


def _summary(solution: Solution, parameters: dict[str, Any]) -> dict[str, Any]:
    certificate = solution.certificate
    # None cannot be written to a file; a callback or a warm start does not change the result.
    dropped = ("callback", "warm_start")
    stored = {name: value for name, value in parameters.items() if value is not None and name not in dropped}
    gaps, counts = ("gap", "relative_gap", "dual_objective"), ("edges_present", "edges_absent", "edges_undetermined")
    return {
        "class_names": np.array(solution.class_names, dtype=object),
        "n_edges": np.array(solution.n_edges),
        "params": {name: _plain(value) for name, value in stored.items()},
        "objective": float(solution.objective),
        "certificate": {name: float(getattr(certificate, name)) for name in gaps}
        | {name: int(getattr(certificate, name)) for name in counts},
        "status": {"converged": bool(solution.status.converged), "message": str(solution.status)},
    }


def _plain(value: Any) -> Any:
    return value if isinstance(value, str | bool | int | float) else json.dumps(value, default=repr)
