"""Concave shapes of the penalty: ``c h(phi / c)`` in place of each term phi of the penalty of a pair.

h is concave and increasing with h(0) = 0 and h'(0) = 1, so that weak pairs are penalised as by phi and strong ones
less: the estimate of a strong edge is less biased. c is such that phi / c is |theta| in units of the
penalty. A term is majorised at a current estimate by the weight ``h'(phi / c)`` (local linear approximation, Zou and Li
2008).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from jointglasso._typing import FloatArray
from jointglasso.data.checks import InputError, check_choice, check_positive
from jointglasso.penalties.base import PairPenalty

#: Smallest slope h': no pair becomes unpenalised, where the likelihood of few samples could be unbounded.
FLOOR = 0.01


@dataclass(frozen=True)
class Shape:
    """Concave function h of one shape, at size s = phi / c; `FLOOR` bounds h' from below."""

    name: str
    parameter: float

    def slope(self, s: FloatArray) -> FloatArray:
        """h'(s): the pair weight of the majorising penalty at pairs of size s."""
        return np.maximum(_SLOPES[self.name](s, self.parameter), FLOOR)

    def value(self, s: FloatArray) -> FloatArray:
        """h(s), the integral of `slope`."""
        knee = _KNEES[self.name](self.parameter)  # the slope equals FLOOR from here on
        return _VALUES[self.name](np.minimum(s, knee), self.parameter) + FLOOR * np.maximum(s - knee, 0.0)

    @property
    def max_steps(self) -> int:
        """Reweightings after the convex solve."""
        return 1 if self.name == "adaptive" else 5


def _scad_slope(s: FloatArray, a: float) -> FloatArray:
    return np.clip((a - s) / (a - 1.0), 0.0, 1.0)


def _scad_value(s: FloatArray, a: float) -> FloatArray:
    middle = np.clip(s, 1.0, a)
    return np.minimum(s, 1.0) + ((middle - 1.0) * a - (middle**2 - 1.0) / 2.0) / (a - 1.0)


def _mcp_slope(s: FloatArray, a: float) -> FloatArray:
    return np.maximum(1.0 - s / a, 0.0)


def _mcp_value(s: FloatArray, a: float) -> FloatArray:
    inside = np.minimum(s, a)
    return inside - inside**2 / (2.0 * a)


#: h'(s), h(s) and the size at which h' reaches `FLOOR`, for the shape parameter a.
_SLOPES: dict[str, Callable[[FloatArray, float], FloatArray]] = {
    "adaptive": lambda s, a: a / (a + s),
    "log": lambda s, a: a / (a + s),
    "sqrt": lambda s, a: np.sqrt(a / (a + s)),
    "atan": lambda s, a: a**2 / (a**2 + s**2),
    "scad": _scad_slope,
    "mcp": _mcp_slope,
}
_VALUES: dict[str, Callable[[FloatArray, float], FloatArray]] = {
    "adaptive": lambda s, a: a * np.log1p(s / a),
    "log": lambda s, a: a * np.log1p(s / a),
    "sqrt": lambda s, a: 2.0 * np.sqrt(a) * (np.sqrt(a + s) - np.sqrt(a)),
    "atan": lambda s, a: a * np.arctan(s / a),
    "scad": _scad_value,
    "mcp": _mcp_value,
}
_KNEES: dict[str, Callable[[float], float]] = {
    "adaptive": lambda a: a / FLOOR - a,
    "log": lambda a: a / FLOOR - a,
    "sqrt": lambda a: a / FLOOR**2 - a,
    "atan": lambda a: a * float(np.sqrt(1.0 / FLOOR - 1.0)),
    "scad": lambda a: a - FLOOR * (a - 1.0),
    "mcp": lambda a: a * (1.0 - FLOOR),
}

#: Shape parameters: those of Fan and Li (2001) and Zhang (2010), else the size at which h' is one half
#: ("log", "atan", "adaptive") or 0.7 ("sqrt").
_DEFAULTS = {"adaptive": 1.0, "log": 1.0, "sqrt": 1.0, "atan": 1.0, "scad": 3.7, "mcp": 3.0}

SHAPES = tuple(_DEFAULTS)
"""Values of the `penalty_shape` argument."""


def penalty_terms(penalty: PairPenalty, rows: FloatArray, unit: float, by_class: bool) -> tuple[FloatArray, FloatArray]:
    """Terms phi (m, T) of the penalties of pairs with the entries `rows` (m, K), and c (T,); zero for a term without h.

    The terms are the coupling and lambda1 |t_k| of each class, or without `by_class` the penalty of the pair; `unit` is
    the mean class weight. NaN stands for a class without the pair.
    """
    size = (penalty.lambda1 + penalty.lambda2) / unit
    if not by_class:
        phi = penalty.value(*penalty.as_entries(rows)) if len(rows) else np.empty(0)
        return phi[:, None], np.array([(penalty.lambda1 + penalty.lambda2) * size])
    only_coupling = np.concatenate([np.ones((len(rows), 1)), np.zeros(rows.shape)], axis=1)
    coupling = penalty.value(*penalty.as_entries(rows, only_coupling)) if len(rows) else np.empty(0)
    # Squared differences have another unit: the coupling term of the Laplacian penalty remains convex.
    coefficients = np.array([penalty.lambda2 * penalty.homogeneous, *[penalty.lambda1] * rows.shape[1]])
    return np.column_stack([coupling, penalty.lambda1 * np.abs(np.nan_to_num(rows))]), coefficients * size


def as_shape(name: str | None, parameter: float | None = None) -> Shape | None:
    """The shape from the arguments `penalty_shape` and `shape_parameter`; None for the convex penalty."""
    if name is None:
        if parameter is not None:
            raise InputError("shape_parameter= goes with penalty_shape=: give both or neither.", "shape_parameter")
        return None
    check_choice("penalty_shape", name, SHAPES)
    value = _DEFAULTS[name] if parameter is None else check_positive("shape_parameter", parameter)
    least = {"scad": 2.0, "mcp": 1.0}.get(name, 0.0)
    if value <= least:
        raise InputError(f'shape_parameter of "{name}" must be above {least:g}, not {value:g}.', "shape_parameter")
    return Shape(name, value)
