"""Fills the page and writes it."""

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

from jointglasso import __version__
from jointglasso._files import atomic_text
from jointglasso.inference import Inference, NetworkBootstrap
from jointglasso.networks import JointNetworks
from jointglasso.report.payload import make_payload
from jointglasso.solution import Solution
from jointglasso.validation import InputTypeError

#: The script of the page, in the order in which its parts need each other.
_SCRIPTS = (
    "model.js", "tables.js", "charts.js", "drawing.js", "stage.js", "picture.js", "search.js", "downloads.js",
    "main.js",
)  # fmt: skip


def write_report(
    path: str | os.PathLike[str],
    solution: Solution,
    *,
    networks: JointNetworks | None = None,
    selection: Any = None,
    stability: Any = None,
    inference: Inference | None = None,
    bootstrap: NetworkBootstrap | None = None,
    groups: Any = "auto",
    texts: Mapping[Any, str] | None = None,
    title: str | None = None,
    parameters: Mapping[str, Any] | None = None,
    notes: str | Sequence[str] | None = None,
) -> Path:
    """Write a report on a solution as one HTML file.

    The file opens in any recent browser without a network: it shows the networks of all classes side by side or
    overlaid, finds and filters, lists hubs and differences, explains the certificate, and offers the edges as CSV.

    Parameters
    ----------
    path : str or path
        File to write; an older one is replaced in one step.
    solution : Solution
        What `jointglasso.solve` returned.
    networks : JointNetworks, optional
        The networks to show instead of those of `solution`, for instance with stabilities or restricted to some
        variables.
    selection : result of `select`, DataFrame, mapping or sequence of mappings, optional
        How the penalties were chosen: the result itself, a table of the candidates, or names and values.
    stability : result of `edge_stability` or sequence of K sparse matrices, optional
        Selection frequency of each edge, between 0 and 1; by default that of `networks`.
    inference : Inference, optional
        What `jointglasso.infer` found: edges and differences with intervals, p and q.
    bootstrap : NetworkBootstrap, optional
        What `jointglasso.bootstrap_network` found: centrality with intervals.
    groups : mapping, sequence, "communities", "none" or "auto"
        Groups of the variables, shown in colour: a mapping from variables to groups, a sequence with the group of each
        variable, or communities found in the networks, by default wherever igraph or networkx is installed.
    texts : mapping, optional
        What to say about a variable, by its name, such as the wording of a questionnaire's item.
    title : str, optional
        Heading of the report.
    parameters : mapping, optional
        Names and values to list instead of those the solution was asked for (`Solution.parameters`).
    notes : str or sequence of str, optional
        Remarks to print, a paragraph each.

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
    given = {name: value for name, value in locals().items() if name != "path"}
    _check_arguments(solution, networks, parameters, texts)
    if networks is None:
        given["networks"] = JointNetworks.from_solution(solution)
    atomic_text(path, fill_page(make_payload(**given)))
    return Path(path)


def _check_arguments(solution: Any, networks: Any, parameters: Any, texts: Any) -> None:
    expected = {
        "solution": (solution, Solution, "what solve returned"),
        "networks": (networks, JointNetworks | None, "a JointNetworks"),
        "parameters": (parameters, Mapping | None, "a mapping of names to values"),
        "texts": (texts, Mapping | None, "a mapping of variables to words"),
    }
    for name, (value, kind, words) in expected.items():
        if not isinstance(value, kind):
            raise InputTypeError(f"{name} must be {words}, not {type(value).__name__}.", name)


def fill_page(payload: Mapping[str, Any]) -> str:
    """Put data, style and script into the page; the policy allows exactly that style and that script."""
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
    # One pass, so that nothing within a part can be taken for a place to fill.
    return re.sub(r"\{\{(\w+)\}\}", lambda place: parts[place.group(1)], _part("page.html"))


def embed_json(value: Any) -> str:
    """JSON that cannot end the script element it stands in, nor open a comment."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    for letter in "<>&\u2028\u2029":
        text = text.replace(letter, f"\\u{ord(letter):04x}")
    # Half of a surrogate pair is no text in UTF-8; as an escape it passes.
    return re.sub("[\ud800-\udfff]", lambda half: f"\\u{ord(half.group()):04x}", text)


def _part(name: str) -> str:
    return files("jointglasso.report").joinpath("page", name).read_text(encoding="utf-8")


def _digest(text: str) -> str:
    digest = hashlib.sha256(text.encode("utf-8")).digest()
    return f"sha256-{base64.b64encode(digest).decode('ascii')}"
