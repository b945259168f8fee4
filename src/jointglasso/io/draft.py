"""What every reader hands over: numbers, names, and what is known about the samples."""

from __future__ import annotations

from dataclasses import dataclass, field

from jointglasso._typing import FloatArray
from jointglasso._wording import nearest
from jointglasso.errors import argument
from jointglasso.validation import InputError


@dataclass(eq=False)
class Draft:
    """A table whose samples are not labelled, selected or checked yet.

    Attributes
    ----------
    path : str
        The file, for messages.
    X : array (n, p)
        Samples in rows, missing = NaN.
    variables, samples : list of str
        Names; those of variables need not be unique yet.
    samples_named : bool
        Whether the names of the samples come from the file (else they are running numbers).
    annotations : dict
        Words that describe the samples, by what they tell; None where unknown.
    label : str or None
        The annotation that tells the classes.
    notes : list of str
        What was found out about the file.
    """

    path: str
    X: FloatArray
    variables: list[str]
    samples: list[str]
    samples_named: bool
    annotations: dict[str, list[str | None]] = field(default_factory=dict)
    label: str | None = None
    notes: list[str] = field(default_factory=list)

    def annotation(self, name: str, option: str) -> list[str | None]:
        """Words of one annotation; `option` asked for it."""
        if name not in self.annotations:
            if not self.annotations:
                raise InputError(
                    f"{self.path} has no labels, so {argument(option, name)} cannot be found: give them with "
                    f"{argument('labels', ...)}.",
                    option,
                )
            known = nearest(name, list(self.annotations))
            raise InputError(
                f"{self.path} does not tell {name!r} of its samples ({known}): correct {argument(option)}.", option
            )
        return self.annotations[name]


def numbered(prefix: str, number: int) -> list[str]:
    """Give running numbers as names."""
    return [f"{prefix}{i + 1}" for i in range(number)]
