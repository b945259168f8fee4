"""What `fit --differences` writes, draws and tells."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING

import click

from jointglasso.cli.session import Session

if TYPE_CHECKING:
    import pandas as pd

    from jointglasso import JointNetworks

#: Figures of differences at most; of more pairs of classes only those are drawn that lie farthest apart.
DRAWN = 6

#: Differences told on the screen.
TOLD = 8


def pairs_of_classes(given: str, networks: JointNetworks) -> list[tuple[str, str]]:
    """Every two classes, or the two that are named."""
    if networks.n_classes < 2:
        raise click.UsageError("--differences needs two classes, but the data have one: add --label.")
    if given == "every two":
        return list(combinations(networks.class_names, 2))
    names = [name.strip() for name in given.split(",")]
    if len(names) != 2:
        raise click.UsageError(f"--differences {given!r} must name two classes with a comma between, or none.")
    for name in names:
        networks.class_index(name)
    return [(names[0], names[1])]


def difference_table(networks: JointNetworks, pairs: Sequence[tuple[str, str]]) -> pd.DataFrame:
    """Differences of one pair of classes or of every two."""
    return networks.differences(*pairs[0]) if len(pairs) == 1 else networks.differences()


def draw_differences(folder: Path, networks: JointNetworks, pairs: Sequence[tuple[str, str]], ending: str) -> None:
    """Draw a figure for each two classes."""
    from jointglasso.cli.results import file_names
    from jointglasso.plots import plot_differences

    files = file_names(networks.class_names)
    sizes = {pair: float((networks.differences(*pair)["difference"] ** 2).sum()) for pair in pairs}
    for one, two in sorted(sizes, key=lambda pair: -sizes[pair])[:DRAWN]:
        plot_differences(networks, one, two, path=folder / f"{files[one]}_minus_{files[two]}.{ending}")


def tell_differences(session: Session, networks: JointNetworks, pairs: Sequence[tuple[str, str]]) -> None:
    """Show the largest differences."""
    table = difference_table(networks, pairs)
    rows = table.head(TOLD)
    session.say(f"\nThe largest of {len(table):,} differences; no edge counts as 0:")
    one_pair = len(pairs) == 1
    header = (*pairs[0], f"{pairs[0][0]} minus {pairs[0][1]}") if one_pair else ("A", "B", "in A", "in B", "A minus B")
    session.table(
        ("variable", "and variable", *header),
        [
            (row.variable1, row.variable2, *(() if one_pair else (row.class1, row.class2)),
             _signed(row.partial_correlation1), _signed(row.partial_correlation2), _signed(row.difference))
            for row in rows.itertuples()
        ],
        left=(0, 1) if one_pair else (0, 1, 2, 3),
    )  # fmt: skip
    session.answer(differences=rows.to_dict("records"))


def _signed(value: float) -> str:
    return f"{value:+.3f}" if value else "0"
