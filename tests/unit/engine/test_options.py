"""`SolveOptions` has the keyword arguments of `solve`, which fills it by position."""

from dataclasses import fields
from inspect import signature

import pytest

import jointglasso as jgl
from jointglasso.engine import SolveOptions, solve_with

S = [[[1.0, 0.5], [0.5, 1.0]], [[1.0, 0.4], [0.4, 1.0]]]


def test_fields_are_the_keyword_arguments_of_solve_in_order():
    arguments = [p for p in signature(jgl.solve).parameters.values() if p.kind is p.KEYWORD_ONLY]
    assert [p.name for p in arguments] == [field.name for field in fields(SolveOptions)]
    assert all(p.default == getattr(SolveOptions(), p.name) for p in arguments)


def test_an_unknown_option_is_named_and_none_is_the_default():
    with pytest.raises(TypeError, match=r"toll= is no argument here.*'tol'"):
        SolveOptions.of({"toll": 1.0})
    assert SolveOptions.of({"tol": None, "solver": "admm"}) == SolveOptions(solver="admm")


def test_solve_with_is_solve():
    one, other = jgl.solve(S, 0.1, 0.1, tol=1e-9), solve_with(S, 0.1, 0.1, SolveOptions(tol=1e-9))
    assert one.objective == other.objective and (one.precision[0] != other.precision[0]).nnz == 0
