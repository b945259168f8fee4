"""Data of the report page as types that JSON has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from jointglasso.data.checks import InputError
from jointglasso.inference import Inference, NetworkBootstrap
from jointglasso.networks import JointNetworks
from jointglasso.networks.clusters import compared_pairs
from jointglasso.networks.communities import VariableGroups, node_groups
from jointglasso.networks.edge_list import EdgeList, lookup
from jointglasso.networks.joint import check_edge_matrices
from jointglasso.networks.layout import common_layout
from jointglasso.report.cards import (
    Card,
    certificate_facts,
    edge_cluster_facts,
    footer,
    note_facts,
    parameter_facts,
    selection_facts,
    steps_facts,
    substructure_card,
    verdict,
)
from jointglasso.report.inference_cards import RATE, bootstrap_cards, inference_cards, pair_tests, significance_facts
from jointglasso.selection import EdgeStability
from jointglasso.solution import Solution

#: Distance of neighbouring variables in units of the stored coordinates, which are integers to keep the file small.
_GRID = 50

#: Maximum number of classes shown side by side at the start; of more, one at a time with a slider.
SIDE_BY_SIDE = 9


def make_payload(
    solution: Solution,
    networks: JointNetworks,
    *,
    selection: Any = None,
    stability: Any = None,
    inference: Inference | None = None,
    fdr: float | None = None,
    bootstrap: NetworkBootstrap | None = None,
    groups: Any = "auto",
    texts: Mapping[Any, str] | None = None,
    title: str | None = None,
    parameters: Mapping[str, Any] | None = None,
    notes: str | Sequence[str] | None = None,
) -> dict[str, Any]:
    """Data of the complete page.

    Values of edges are stored once, as precisions in full accuracy with the diagonals; the page computes the partial
    correlations from them.
    """
    if tuple(networks.class_names) != tuple(solution.class_names):
        raise InputError(
            f"networks has the classes {networks.class_names}, but the solution {solution.class_names}: "
            "give networks made from this solution.",
            "networks",
        )
    tested = inference_cards(inference, fdr or RATE)
    if inference is not None and fdr is not None:
        of_networks, certified = significance_facts(inference, networks, fdr), None
        # Significant is a word of statistics, certified one of optimisation.
        text = f"{sum(networks.n_edges):,} edges significant at a false discovery rate of {fdr:g}"
        badge: dict[str, Any] = {"good": True, "text": text, "section": "inference"}
    else:
        of_networks = parameter_facts(solution, parameters, selection, networks.n_edges)
        badge, certified = verdict(solution), _certified(networks, solution)
    facts = [
        *(tested if fdr is not None else []),
        *bootstrap_cards(bootstrap),
        certificate_facts(solution, of_support=fdr is not None),
        substructure_card(solution),
        edge_cluster_facts(networks),
        steps_facts(networks, solution),
        of_networks,
        selection_facts(selection),
        note_facts(notes),
        *(tested if fdr is None else []),
    ]
    cards = [card for card in facts if card is not None]
    _drop_repeated(cards)
    return {
        **network_payload(networks, title=title, groups=groups, texts=texts),
        "edges": _edges(networks.edge_list, _stability(networks, stability), certified),
        "tests": pair_tests(inference, networks),
        "facts": cards,
        "verdict": badge,
        "significant": fdr,
        "footer": footer(),
    }


def _drop_repeated(cards: Sequence[Card]) -> None:
    """Remove paragraphs that are part of a note or of an earlier section."""
    shown = [text for card in cards if card["id"] == "notes" for text in card["paragraphs"]]
    for card in cards:
        if card["id"] != "notes" and "paragraphs" in card:
            card["paragraphs"] = [text for text in card["paragraphs"] if not any(text in other for other in shown)]
            shown += card["paragraphs"]


def network_payload(
    networks: JointNetworks, *, title: str | None = None, groups: Any = "auto", texts: Mapping[Any, str] | None = None
) -> dict[str, Any]:
    """Data of networks without a solution: no certificate, parameters or selection."""
    strength, n = networks.edge_list.readable_strength(), networks.n_classes
    place = np.rint(common_layout(networks.precision, strength) * _GRID).astype(np.int64)
    grouping = node_groups(networks, groups)
    certified = networks.edge_certified.astype(int).tolist() if networks.has_certified else None
    return {
        "title": title or (f"Networks of {n} classes" if n > 1 else f"Network of {networks.class_names[0]}"),
        "classes": list(networks.class_names),
        "variables": list(networks.variable_names),
        "texts": _texts(networks, texts),
        "groups": None if grouping is None else _plain(grouping),
        "start_strength": strength,
        "start_mode": "single" if networks.n_classes > SIDE_BY_SIDE else "side",
        "layout": {"spacing": _GRID, "x": place[:, 0].tolist(), "y": place[:, 1].tolist()},
        "pairs": _pairs(networks.edge_list),
        "edges": _edges(networks.edge_list, _stability(networks, None), certified),
        "same": _edge_clusters(networks),
        "absent": None if networks.absent is None else [np.flatnonzero(row).tolist() for row in networks.absent],
        "diagonal": [matrix.diagonal().tolist() for matrix in networks.precision],
        "facts": [],
        "verdict": {"good": True, "text": ""},
        "footer": "",
    }


def _plain(groups: VariableGroups) -> dict[str, Any]:
    return {"title": groups.title, "names": list(groups.names), "of": groups.of.tolist()}


def _texts(networks: JointNetworks, by_variable: Mapping[Any, str] | None) -> list[str] | None:
    """Description of each variable, such as the wording of an item; empty by default."""
    if by_variable is None:
        return None
    texts = [""] * networks.n_variables
    for variable, text in by_variable.items():
        texts[networks.position(variable)] = str(text)
    return texts


def _pairs(edges: EdgeList) -> dict[str, list[int]]:
    return {
        "first": edges.first[edges.starts].tolist(),
        "second": edges.second[edges.starts].tolist(),
        "count": edges.classes_of_pair.tolist(),
        "kind": edges.kind_of_pair.tolist(),
    }


def _edges(edges: EdgeList, stability: list[float] | None, certified: list[int] | None) -> dict[str, list[Any] | None]:
    """Columns of the edges, sorted by pair and class; None for columns that are not known."""
    return {
        "class": edges.class_index.tolist(),
        "precision": edges.precision.tolist(),
        "stability": stability,
        "certified": certified,
    }


def _edge_clusters(networks: JointNetworks) -> dict[str, Any] | None:
    """Clusters of equal values by edge, and whether each pair changes; None unless the penalty fuses values."""
    if networks.edge_clusters is None:
        return None
    edge_clusters, edges = compared_pairs(networks), networks.edge_list
    entry = (edges.pair, edges.class_index)
    return {
        "cluster": edge_clusters.clusters[entry].tolist(),
        "cluster_proved": edge_clusters.proved_clusters[entry].astype(int).tolist(),
        "changes": edge_clusters.changes.astype(int).tolist(),
        "changes_proved": edge_clusters.changes_proved.astype(int).tolist(),
    }


def _certified(networks: JointNetworks, solution: Solution) -> list[int] | None:
    """Whether each edge is certified non-zero: from the networks, or from the solution if it has the same variables."""
    if networks.has_certified:
        return networks.edge_certified.astype(int).tolist()
    if networks.variable_names != tuple(solution.variable_names):
        return None
    return (lookup(solution.certified, networks.edge_list) > 0).astype(int).tolist()


def _stability(networks: JointNetworks, stability: Any) -> list[float] | None:
    if stability is None:
        return networks.edge_stability.tolist() if networks.has_stability else None
    frequencies = stability.frequencies if isinstance(stability, EdgeStability) else stability
    checked = check_edge_matrices("stability", frequencies, networks.n_classes, networks.n_variables)
    return lookup(checked or [], networks.edge_list).tolist()
