"""HTML representation of results in notebooks: tables, and the networks in a self-contained frame."""

from __future__ import annotations

import html
from typing import Any

import numpy as np

from jointglasso._display import SHOWN, ReprMixin, as_frame
from jointglasso.networks import JointNetworks
from jointglasso.networks.tables import summary_rows
from jointglasso.report.payload import READABLE, network_payload
from jointglasso.report.write import fill_page
from jointglasso.selection import SelectionResult
from jointglasso.solution import Solution

#: Height of the frame in pixels.
HEIGHT = 520


def html_of(result: Any) -> str:
    """HTML with table and networks of a Solution, JointNetworks, SelectionResult or instance of `ReprMixin`."""
    if isinstance(result, ReprMixin):
        networks = result._networks()
        shown = "".join(map(_part, result._parts()))
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
    return f"<div>{words}{_part(table, len(rows))}{_frame(result)}</div>"


def _part(part: Any, max_rows: int = SHOWN) -> str:
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
