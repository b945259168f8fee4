"""The HTML page of a report: its data as types that JSON has, its assembly and its writing."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import os
import re
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from jointglasso import __version__
from jointglasso._display import SHOWN, ReprMixin, as_frame
from jointglasso._files import atomic_text
from jointglasso.data.checks import InputError, InputTypeError, known_arguments
from jointglasso.inference import Inference, NetworkBootstrap
from jointglasso.networks import JointNetworks
from jointglasso.networks.communities import node_groups
from jointglasso.networks.comparisons import compared_pairs
from jointglasso.networks.edge_list import READABLE, lookup
from jointglasso.networks.joint import check_edge_matrices
from jointglasso.networks.layout import common_layout
from jointglasso.networks.tables import summary_rows
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
from jointglasso.selection import EdgeStability, SelectionResult
from jointglasso.solution import Solution

#: Parts of the script of the page, in order of dependence.
_SCRIPTS = (
    "model.js", "tables.js", "charts.js", "drawing.js", "stage.js", "picture.js", "search.js", "downloads.js",
    "main.js",
)  # fmt: skip

#: Distance of neighbouring variables in units of the stored coordinates, which are integers to keep the file small.
_GRID = 50

#: Maximum number of classes shown side by side at the start; of more, one at a time with a slider.
SIDE_BY_SIDE = 9


@known_arguments()
def write_report(
    path: str | os.PathLike[str],
    solution: Solution,
    *,
    networks: JointNetworks | None = None,
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
) -> Path:
    """Write a report on a solution as one HTML file.

    The file is self-contained and opens in any recent browser. It shows the networks of all classes side by side or
    overlaid, with search and filters, lists hubs and differences, explains the certificate, and exports the edges as
    CSV.

    Parameters
    ----------
    path : str or path
        File to write; an existing one is replaced atomically.
    solution : Solution
        Result of `jointglasso.solve`.
    networks : JointNetworks, optional
        Networks to show instead of those of `solution`, for instance with selection frequencies or restricted to a
        subset of the variables.
    selection : SelectionResult, optional
        Result of `jointglasso.select`: how the penalties were chosen.
    stability : result of `edge_stability` or sequence of K sparse matrices, optional
        Selection frequency of each edge, between 0 and 1; by default that of `networks`.
    inference : Inference, optional
        Result of `jointglasso.infer`: edges and differences with confidence intervals, p- and q-values. Without it the
        report calls differences between the classes not tested.
    fdr : float, optional
        Show the networks of the edges of `inference` that are significant at this false discovery rate, with
        desparsified values, instead of those of `solution`.
    bootstrap : NetworkBootstrap, optional
        Result of `jointglasso.bootstrap_network`: centralities with intervals.
    groups : mapping, sequence, "communities", "none" or "auto"
        Groups of the variables, shown in colour: a mapping from variables to groups, a sequence with the group of each
        variable, or communities found in the networks, by default wherever igraph is installed.
    texts : mapping, optional
        Description of a variable, by its name, such as the wording of a questionnaire item.
    title : str, optional
        Heading of the report.
    parameters : mapping, optional
        Names and values to list instead of `Solution.parameters`, for instance with the association and the treatment
        of missing values.
    notes : str or sequence of str, optional
        Notes to include, a paragraph each.

    Returns
    -------
    pathlib.Path
        The file written.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> import jointglasso as jgl
    >>> solution = jgl.solve({"ill": [[1.0, 0.5], [0.5, 1.0]], "well": [[1.0, 0.2], [0.2, 1.0]]}, 0.1, 0.1)
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "networks.html"
    >>> jgl.write_report(file, solution, title="Two conditions").name
    'networks.html'
    """
    _check_arguments(solution, networks, parameters, texts)
    if fdr is not None and (inference is None or networks is not None):
        raise InputError("fdr chooses the edges of inference: give inference, and leave networks out.", "fdr")
    if fdr is not None and inference is not None:
        networks = inference.graph(fdr)
    elif networks is None:
        networks = JointNetworks.from_solution(solution)
    payload = make_payload(
        solution, networks, selection=selection, stability=stability, inference=inference, bootstrap=bootstrap,
        groups=groups, texts=texts, title=title, parameters=parameters, notes=notes, fdr=fdr,
    )  # fmt: skip
    atomic_text(path, fill_page(payload))
    return Path(path)


def _check_arguments(solution: Any, networks: Any, parameters: Any, texts: Any) -> None:
    expected = {
        "solution": (solution, Solution, "what solve returned"),
        "networks": (networks, JointNetworks | None, "a JointNetworks"),
        "parameters": (parameters, Mapping | None, "a mapping of names to values"),
        "texts": (texts, Mapping | None, "a mapping of variables to words"),
    }
    for name, (value, kind, expectation) in expected.items():
        if not isinstance(value, kind):
            raise InputTypeError(f"{name} must be {expectation}, not {type(value).__name__}.", name)


def make_payload(
    solution: Solution,
    networks: JointNetworks,
    *,
    selection: Any = None,
    stability: Any = None,
    inference: Inference | None = None,
    fdr: float | None = None,
    bootstrap: NetworkBootstrap | None = None,
    parameters: Mapping[str, Any] | None = None,
    notes: str | Sequence[str] | None = None,
    **shown: Any,
) -> dict[str, Any]:
    """Data of the complete page; title, groups and texts as in `network_payload`.

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
        of_networks = significance_facts(inference, networks, fdr)
        # Significant is a word of statistics, certified one of optimisation.
        text = f"{sum(networks.n_edges):,} edges significant at a false discovery rate of {fdr:g}"
        badge: dict[str, Any] = {"good": True, "text": text, "section": "inference"}
    else:
        of_networks = parameter_facts(solution, parameters, selection, networks.n_edges)
        badge = verdict(solution)
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
    matrices = stability.frequencies if isinstance(stability, EdgeStability) else stability
    frequencies = check_edge_matrices("stability", matrices, networks.n_classes, networks.n_variables)
    same_variables = networks.variable_names == tuple(solution.variable_names)
    proved = solution.certified if fdr is None and same_variables and not networks.has_certified else None
    return {
        **network_payload(networks, **shown),
        "edges": _edges(networks, frequencies, proved),
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
    edges, n = networks.edge_list, networks.n_classes
    strength = edges.readable_strength()
    place = np.rint(common_layout(networks.precision, strength) * _GRID).astype(np.int64)
    grouping = node_groups(networks, groups)
    return {
        "title": title or (f"Networks of {n} classes" if n > 1 else f"Network of {networks.class_names[0]}"),
        "classes": list(networks.class_names),
        "variables": list(networks.variable_names),
        "texts": _texts(networks, texts),
        "groups": grouping and {"title": grouping.title, "names": list(grouping.names), "of": grouping.of.tolist()},
        "start_strength": strength,
        "start_mode": "single" if networks.n_classes > SIDE_BY_SIDE else "side",
        "layout": {"spacing": _GRID, "x": place[:, 0].tolist(), "y": place[:, 1].tolist()},
        "pairs": {
            "first": edges.first[edges.starts].tolist(),
            "second": edges.second[edges.starts].tolist(),
            "count": edges.classes_of_pair.tolist(),
            "kind": edges.kind_of_pair.tolist(),
        },
        "edges": _edges(networks),
        "same": _edge_clusters(networks),
        "absent": None if networks.absent is None else [np.flatnonzero(row).tolist() for row in networks.absent],
        "diagonal": [matrix.diagonal().tolist() for matrix in networks.precision],
        "facts": [],
        "verdict": {"good": True, "text": ""},
        "footer": "",
    }


def _texts(networks: JointNetworks, by_variable: Mapping[Any, str] | None) -> list[str] | None:
    """Description of each variable, such as the wording of an item; empty by default."""
    if by_variable is None:
        return None
    texts = [""] * networks.n_variables
    for variable, text in by_variable.items():
        texts[networks.position(variable)] = str(text)
    return texts


def _edges(networks: JointNetworks, frequencies: Any = None, proved: Any = None) -> dict[str, list[Any] | None]:
    """Columns of the edges, sorted by pair and class; None for columns that are not known.

    `frequencies` and `proved` are K matrices of selection frequencies and of certified entries, by default those of the
    networks.
    """
    edges = networks.edge_list
    stability = networks.edge_stability if frequencies is None else lookup(frequencies, edges)
    certified = networks.edge_certified if proved is None else lookup(proved, edges) > 0
    return {
        "class": edges.class_index.tolist(),
        "precision": edges.precision.tolist(),
        "stability": None if frequencies is None and not networks.has_stability else stability.tolist(),
        "certified": None if proved is None and not networks.has_certified else certified.astype(int).tolist(),
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


def fill_page(payload: Mapping[str, Any]) -> str:
    """Insert data, style and script into the page, with a content security policy for exactly these."""
    style = _part("page.css")
    script = '(() => {\n"use strict";\n' + "\n".join(_part(name) for name in _SCRIPTS) + "\n})();\n"
    policy = (
        f"default-src 'none'; style-src '{_digest(style)}'; script-src '{_digest(script)}'; "
        "base-uri 'none'; form-action 'none'"
    )
    parts = {
        "policy": html.escape(policy, quote=False),
        "version": html.escape(__version__),
        "title": html.escape(str(payload["title"])),
        "style": style,
        "data": embed_json(payload),
        "script": script,
    }
    # One pass, so that placeholders within a part are not replaced.
    return re.sub(r"\{\{(\w+)\}\}", lambda place: parts[place.group(1)], _part("page.html"))


def embed_json(value: Any) -> str:
    """JSON escaped for a script element: it can neither close the element nor open a comment."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    for letter in "<>&\u2028\u2029":
        text = text.replace(letter, f"\\u{ord(letter):04x}")
    # Lone surrogates cannot be encoded in UTF-8; they are written as escapes.
    return re.sub("[\ud800-\udfff]", lambda half: f"\\u{ord(half.group()):04x}", text)


def _part(name: str) -> str:
    return files("jointglasso.report").joinpath("page", name).read_text(encoding="utf-8")


def _digest(text: str) -> str:
    digest = hashlib.sha256(text.encode("utf-8")).digest()
    return f"sha256-{base64.b64encode(digest).decode('ascii')}"


#: Height of the frame in pixels.
HEIGHT = 520


def html_of(result: Any) -> str:
    """HTML with table and networks of a Solution, JointNetworks, SelectionResult or instance of `ReprMixin`."""
    if isinstance(result, ReprMixin):
        networks = result._networks()
        shown = "".join(map(_part_html, result._parts()))
        return f"<div>{shown}{'' if networks is None else _frame(networks)}</div>"
    lines: list[str] = []
    if isinstance(result, SelectionResult):
        lines += str(result.explain()).splitlines()[:2]
        result = result.solution
    if isinstance(result, Solution):
        certificate = result.certificate
        lines.append(
            f"{result.status} Relative gap {certificate.relative_gap:.1e}; "
            f"{certificate.edges_present:,} edges certified present, "
            f"{certificate.edges_absent:,} absent, {certificate.edges_undetermined:,} undecided."
        )
        result = JointNetworks.from_solution(result)
    header, rows = summary_rows(result)
    table = dict(zip(header, zip(*rows, strict=True), strict=True))
    words = "".join(f"<div>{html.escape(line)}</div>" for line in lines)
    return f"<div>{words}{_part_html(table, len(rows))}{_frame(result)}</div>"


def _part_html(part: Any, max_rows: int = SHOWN) -> str:
    """A sentence, or the first rows of a table."""
    if isinstance(part, str):
        return f"<div>{html.escape(part)}</div>"
    table = as_frame(part)
    more = f"<div>... {len(table) - max_rows:,} more</div>" if len(table) > max_rows else ""
    text: str = table.head(max_rows).to_html(index=False, border=0, float_format=lambda value: f"{value:.3g}")
    return text + more


def _frame(networks: JointNetworks) -> str:
    """Frame with the networks of the strongest pairs, or a sentence where no edges exist."""
    joined = networks.strongest(READABLE)
    connected = np.flatnonzero(joined.degree_table.sum(axis=1))
    if len(connected) == 0:
        return "<div>No edges.</div>"
    part = joined.subnetwork(connected)
    left_out = networks.edge_list.n_pairs - part.edge_list.n_pairs
    note = f"<div>The {READABLE} strongest pairs; {left_out:,} weaker ones are not shown.</div>" if left_out else ""
    page = fill_page({**network_payload(part), "compact": True})
    return (
        f'{note}<iframe srcdoc="{html.escape(page)}" sandbox="allow-scripts allow-downloads" '
        f'style="width:100%;height:{HEIGHT}px;border:0"></iframe>'
    )
