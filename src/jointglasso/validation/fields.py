"""Errors about input that say what they are about in fields, for programs, beside the sentence for people."""

from __future__ import annotations


class _About(Exception):
    """What an error is about; None where that is not one thing."""

    class_name: str | None
    variable: str | None
    parameter: str | None

    def __init__(
        self,
        message: str,
        *,
        class_name: str | None = None,
        variable: str | None = None,
        parameter: str | None = None,
    ) -> None:
        super().__init__(message)
        self.class_name, self.variable, self.parameter = class_name, variable, parameter


class InputError(_About, ValueError):
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


class InputTypeError(_About, TypeError):
    """A parameter of a kind that cannot be used; fields as in `InputError`."""
