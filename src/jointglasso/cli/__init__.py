"""Command-line interface of the library.

One module for each command or related ones. `session` holds the shared behaviour (JSON output, exit codes, errors),
`folder` the atomic writing of result folders.
"""

from __future__ import annotations

import click

from jointglasso.cli.doctor import doctor
from jointglasso.cli.export import export, report
from jointglasso.cli.fit import demo, fit, select
from jointglasso.cli.infer import infer
from jointglasso.cli.screen import screen
from jointglasso.cli.session import EXIT_CODES


class _InOrder(click.Group):
    """A group that lists its commands in the order of use, not of the alphabet."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)


@click.group(
    cls=_InOrder,
    epilog=f"{EXIT_CODES} Every command has --help, and --json for one JSON object on the standard output.",
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
)
@click.version_option(package_name="jointglasso")
def main() -> None:
    """Exact joint graphical lasso: several related networks, with a certificate of optimality.

    \b
    Example:
      jointglasso demo
      jointglasso screen data.csv --label tissue
      jointglasso fit data.csv --label tissue --out networks
    """


for command in (demo, screen, select, fit, infer, report, export, doctor):
    main.add_command(command)
