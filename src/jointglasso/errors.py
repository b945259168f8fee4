"""Input errors with machine-readable fields (class, variable, parameter) besides the message."""

from __future__ import annotations

import os
import sys
import warnings
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


def warn_caller(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn at the line that called the package, through whichever of its functions."""
    frame, level, package = sys._getframe(1), 2, os.path.dirname(__file__) + os.sep
    while frame.f_back is not None and frame.f_code.co_filename.startswith(package):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)
