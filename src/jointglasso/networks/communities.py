"""Groups of variables: named by the user, or communities of the networks."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from jointglasso._optional import is_from, require
from jointglasso._typing import IntArray
from jointglasso.data.checks import InputError
from jointglasso.networks.layout import union_weights

if TYPE_CHECKING:
    from jointglasso.networks.joint import JointNetworks

#: Communities that get a colour of their own; smaller ones are grey.
MAX_COLOURED = 8


@dataclass(frozen=True)
class VariableGroups:
    """Names of the groups, and for each variable the number of its group, -1 for none."""

    title: str
    names: tuple[str, ...]
    of: IntArray


def find_communities(networks: JointNetworks, resolution: float = 1.0) -> IntArray:
    """Community of each variable, 1 for the biggest, 0 for variables without an edge."""
    if not resolution > 0:
        raise InputError(f"resolution must be positive, not {resolution!r}.", "resolution")
    label, joined = _leiden(networks, resolution), networks.degree_table.sum(axis=1) > 0
    numbers, counts = np.unique(label[joined], return_counts=True)
    rank = {number: place for place, number in enumerate(numbers[np.argsort(-counts, kind="stable")].tolist(), start=1)}
    return np.array([rank.get(number, 0) for number in np.where(joined, label, -1).tolist()])


def _leiden(networks: JointNetworks, resolution: float) -> IntArray:
    """Community of each variable by the Leiden method, in any order."""
    igraph = require("igraph", "networks")
    weights = sparse.triu(union_weights(networks.precision), 1).tocoo()
    graph = igraph.Graph(n=networks.n_variables, edges=np.column_stack(weights.coords).tolist())
    igraph.set_random_number_generator(random.Random(0))
    try:
        options = {"weights": weights.data.tolist(), "resolution": resolution, "n_iterations": -1}
        return np.array(graph.community_leiden("modularity", **options).membership, dtype=np.int64)
    finally:
        igraph.set_random_number_generator(random)


def node_groups(networks: JointNetworks, groups: Any) -> VariableGroups | None:
    """Groups as a user specifies them.

    `groups` maps names of variables to groups, or is a sequence with the group of every variable, "communities",
    "none" or None for no groups, or "auto" for communities where igraph is installed.
    """
    if groups is None or (isinstance(groups, str) and groups == "none"):
        return None
    if isinstance(groups, str):
        if groups not in ("auto", "communities"):
            raise InputError(
                f"groups={groups!r} is not known: give a mapping from variables to groups, a list with the group of "
                "every variable, 'communities' or 'none'.",
                "groups",
            )
        if groups == "auto" and find_spec("igraph") is None:
            return None
        return _communities(networks)
    return _named(networks, groups)


def _communities(networks: JointNetworks) -> VariableGroups | None:
    """The biggest communities of at least three variables."""
    if networks.n_variables < 6:  # no two communities of three
        return None
    label = find_communities(networks)
    sizes = np.bincount(label)[1:]
    n_coloured = min(int((sizes > 2).sum()), MAX_COLOURED)
    if n_coloured < 2:
        return None
    names = tuple(f"{number} ({size} variables)" for number, size in enumerate(sizes[:n_coloured], start=1))
    return VariableGroups("Community", names, np.where(label <= n_coloured, label, 0) - 1)


def _named(networks: JointNetworks, groups: Any) -> VariableGroups:
    p = networks.n_variables
    values: list[Any] = [None] * p
    if isinstance(groups, Mapping) or is_from(groups, "pandas"):
        for name, group in groups.items():
            values[networks.position(name)] = group
    else:
        values = list(groups)
        if len(values) != p:
            raise InputError(
                f"groups has {len(values)} entries, but there are {p} variables: give one for each.", "groups"
            )
    # NaN, the missing value of pandas, means no group.
    words = [None if value is None or value != value else str(value) for value in values]
    names = tuple(dict.fromkeys(word for word in words if word is not None))
    if not names:
        raise InputError("groups puts no variable into a group: check the names of the variables.", "groups")
    return VariableGroups("Group", names, np.array([-1 if word is None else names.index(word) for word in words]))
