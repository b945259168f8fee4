"""Errors about input that say what they are about in fields, for programs, beside the sentence for people."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


class _ErrorFields(Exception):
    """What an error is about; None where that is not one thing."""

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
    """Data or a parameter that cannot be used; the sentence says what to do about it.

    Attributes
    ----------
    class_name, variable, parameter : str or None
        The class, the variable and the argument that it is about, the first of them where there are several.

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
    """A parameter of a kind that cannot be used; fields as in `InputError`."""


def argument(name: str, *value: Any, words: str = "") -> str:
    """An argument as a sentence spells it: ``label``, ``label=`` (of the value ``...``) or ``label='state'``.

    Whoever gives the arguments other names (`spelt`) hears of them by those. `words` are said instead in Python, of
    something that has no such argument here.
    """
    return _spelling(name, value, words)


def _in_python(name: str, value: tuple[Any, ...], words: str) -> str:
    if words or not value:
        return words or name
    (content,) = value
    return f"{name}={'' if content is ... else f'{content:g}' if isinstance(content, float) else repr(content)}"


_spelling: Callable[[str, tuple[Any, ...], str], str] = _in_python


@contextmanager
def spelt(spelling: Callable[[str, tuple[Any, ...], str], str | None]) -> Iterator[None]:
    """Spell the arguments in all sentences said meanwhile in another way; None leaves one as it is in Python."""
    global _spelling
    before, _spelling = _spelling, lambda *named: spelling(*named) or _in_python(*named)
    try:
        yield
    finally:
        _spelling = before
