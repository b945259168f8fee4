"""Input errors with machine-readable fields (class, variable, parameter) besides the message."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


class _ErrorFields(Exception):
    """Fields of an input error; None where they do not apply or are not unique."""

    class_name: str | None
    variable: str | None
    parameter: str | None

    def __init__(
        self,
        message: str,
        parameter: str | None = None,
        *,
        class_name: str | None = None,
        variable: str | None = None,
    ) -> None:
        super().__init__(message)
        self.class_name, self.variable, self.parameter = class_name, variable, parameter


class InputError(_ErrorFields, ValueError):
    """Invalid data or parameter value; the message names the remedy.

    Attributes
    ----------
    class_name, variable, parameter : str or None
        Class, variable and argument concerned; the first one if there are several.

    Examples
    --------
    >>> import jointglasso as jgl
    >>> try:
    ...     jgl.solve([[[1.0, 0.5], [0.5, 1.0]]], lambda1=-1, lambda2=0.1)
    ... except jgl.InputError as error:
    ...     print(error.parameter, "|", error)
    lambda1 | lambda1=-1 must be a finite number >= 0.
    """


class InputTypeError(_ErrorFields, TypeError):
    """Parameter of an invalid type; fields as in `InputError`."""


def argument(name: str, *value: Any, words: str = "") -> str:
    """Name of an argument in a message: ``label``, ``label=`` (for the value ``...``) or ``label='state'``.

    Within `argument_names_as`, for example in the command line interface, the name of the corresponding option is used.
    `words` replace it in Python, for a choice that has no such argument in the Python interface.
    """
    return _spelling(name, value, words)


def _in_python(name: str, value: tuple[Any, ...], words: str) -> str:
    if words or not value:
        return words or name
    (content,) = value
    return f"{name}={'' if content is ... else f'{content:g}' if isinstance(content, float) else repr(content)}"


_spelling: Callable[[str, tuple[Any, ...], str], str] = _in_python


@contextmanager
def argument_names_as(spelling: Callable[[str, tuple[Any, ...], str], str | None]) -> Iterator[None]:
    """Context manager: use `spelling` for argument names in all messages; None keeps the Python name."""
    global _spelling
    before, _spelling = _spelling, lambda *named: spelling(*named) or _in_python(*named)
    try:
        yield
    finally:
        _spelling = before
