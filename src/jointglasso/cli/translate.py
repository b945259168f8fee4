"""Sentences of the library speak of keyword arguments; on the command line the same things are options."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from typing import Any

import click

#: Keyword arguments that are several options, or one of another name.
_NAMES = {"missing_markers": "missing_marker", "cv": "folds", "subset": "classes", "warm_start": "checkpoint"}

#: What is switched rather than given.
_SWITCHES = {
    ("header", True): "--header",
    ("header", False): "--no-header",
    ("names", False): "--no-names",
    ("comment", False): "--no-comment",
    ("relaxed", False): "--penalized-scores",
    ("complementary_pairs", False): "no --stability",
}


def options_of(command: click.Command) -> Callable[[str, tuple[Any, ...], str], str | None]:
    """How the arguments of the library are spelt as options of a command; None where it has no such option."""
    given = [param for param in command.params if isinstance(param, click.Option)]
    options = {param.name: next((word for word in param.opts if word.startswith("--")), "") for param in given}

    def spell(name: str, value: tuple[Any, ...], words: str) -> str | None:
        if value and isinstance(value[0], bool):
            return _SWITCHES.get((name, value[0]))
        option = options.get(_NAMES.get(name, name))
        if not option:
            return None
        if name == "subset" and not value:
            return f"{option} or --subset"
        if not value or value[0] is ...:
            return option
        given = ",".join(map(str, value[0])) if isinstance(value[0], list) else value[0]
        said = f"{option} {given:g}" if isinstance(given, float) else f"{option} {shlex.quote(str(given))}"
        return f"{words} with {said}" if words else said

    return spell
