"""Input errors with machine-readable fields (class, variable, parameter) besides the message."""

from __future__ import annotations

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


def argument(name: str, *value: Any) -> str:
    """Argument in a message: ```label```, ``label=`` (for the value ``...``) or ``label='state'``.

    The command line interface replaces these by its options.
    """
    if not value:
        return f"`{name}`"
    (content,) = value
    return f"{name}={'' if content is ... else f'{content:g}' if isinstance(content, float) else repr(content)}"
