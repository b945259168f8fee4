"""Loops over rows of 32 single-precision numbers, in vector instructions of 16 lanes.

Left to itself the compiler handles such short rows at a quarter of this speed: it checks at every row whether arrays
overlap, and uses half the width of the registers. These functions say in LLVM's own language what is meant; processors
with narrower registers split the vectors. Rows should begin at multiples of 64 bytes, else every load touches two
lines of the cache.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

ROW = 32
LANES = 16

_FLOAT, _INT32, _INT64 = ir.FloatType(), ir.IntType(32), ir.IntType(64)
_VECTOR = ir.VectorType(_FLOAT, LANES)
_PIECES = range(0, ROW, LANES)


@intrinsic
def add_rows(  # type: ignore[no-untyped-def]
    typing_context, out, at, table, base, column, values, begin, end
):
    """``out[at : at + 32] = sum of values[n] * table[base + 32 * column[n] : ... + 32]`` over begin <= n < end."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        _, at, _, base, _, _, begin, end = arguments
        out, table, column, values = _pointers(context, builder, signature, arguments, (0, 2, 4, 5))
        sums = [cgutils.alloca_once_value(builder, ir.Constant(_VECTOR, [0.0] * LANES)) for _ in _PIECES]
        for total in sums:  # the room is shared by all rounds of the surrounding loops
            builder.store(ir.Constant(_VECTOR, [0.0] * LANES), total)
        with cgutils.for_range_slice(builder, begin, end, ir.Constant(_INT64, 1)) as (n, _):
            factor = _everywhere(builder, builder.load(builder.gep(values, [n])))
            row = _row_of(builder, base, column, n)
            for piece, total in zip(_PIECES, sums, strict=True):
                product = builder.fmul(factor, _load(builder, table, row, piece), flags=("contract",))
                builder.store(builder.fadd(builder.load(total), product, flags=("contract",)), total)
        for piece, total in zip(_PIECES, sums, strict=True):
            _store(builder, builder.load(total), out, at, piece)
        return context.get_dummy_value()

    integer = types.int64
    return types.void(out, integer, table, integer, column, values, integer, integer), generate


@intrinsic
def add_four_dots(  # type: ignore[no-untyped-def]
    typing_context, left, at, right, base, step, column, n, out, unknown
):
    """Add to ``out[unknown[m]]``, n <= m < n + 4, the product of row `at` of `left` and row ``column[m]`` of `right`.

    Both rows go on `step` further: ``left[at : at + 32]`` and ``left[at + step : at + step + 32]``, likewise those of
    `right`, which begin at ``base + 32 * column[m]``. Adding up lanes costs as much as multiplying them.
    """
    return _dots_signature(left, right, column, out, unknown), _generate_dots(4)


@intrinsic
def add_one_dot(  # type: ignore[no-untyped-def]
    typing_context, left, at, right, base, step, column, n, out, unknown
):
    """As `add_four_dots`, for m = n alone."""
    return _dots_signature(left, right, column, out, unknown), _generate_dots(1)


def _dots_signature(left: Any, right: Any, column: Any, out: Any, unknown: Any) -> Any:
    return types.void(left, types.int64, right, types.int64, types.int64, column, types.int64, out, unknown)


def _generate_dots(count: int) -> Callable[..., Any]:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        _, at, _, base, step, _, n, _, _ = arguments
        left, right, column, out, unknown = _pointers(context, builder, signature, arguments, (0, 2, 5, 7, 8))
        mine = _load_both(builder, left, at, step)
        places = [builder.add(n, ir.Constant(_INT64, m)) for m in range(count)]
        products = []
        for place in places:
            total = ir.Constant(_VECTOR, [0.0] * LANES)
            others = _load_both(builder, right, _row_of(builder, base, column, place), step)
            for a, b in zip(mine, others, strict=True):
                total = builder.fadd(total, builder.fmul(a, b, flags=("contract",)), flags=("contract",))
            products.append(total)
        dots = _sum_lanes_of_four(builder, [products[m % count] for m in range(4)])
        for m, place in enumerate(places):
            target = builder.gep(out, [builder.load(builder.gep(unknown, [place]))])
            dot = builder.fpext(builder.extract_element(dots, ir.Constant(_INT32, m)), ir.DoubleType())
            builder.store(builder.fadd(builder.load(target), dot), target)
        return context.get_dummy_value()

    return generate


@intrinsic
def transpose_square(typing_context, square, out, at):  # type: ignore[no-untyped-def]
    """``out[at : at + 32 * 32] = square.T``, both 32 rows of 32 one after another."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        at = arguments[2]
        square, out = _pointers(context, builder, signature, arguments, (0, 1))
        for top in _PIECES:
            for left in _PIECES:
                rows = [_load(builder, square, ir.Constant(_INT64, (top + i) * ROW), left) for i in range(LANES)]
                for i, row in enumerate(_transposed(builder, rows)):
                    _store(builder, row, out, at, (left + i) * ROW + top)
        return context.get_dummy_value()

    return types.void(square, out, types.int64), generate


def _pointers(context: Any, builder: Any, signature: Any, arguments: Any, which: tuple[int, ...]) -> list[Any]:
    """Where the numbers of these array arguments are."""
    return [context.make_array(signature.args[n])(context, builder, value=arguments[n]).data for n in which]


def _row_of(builder: Any, base: Any, column: Any, n: Any) -> Any:
    number = builder.sext(builder.load(builder.gep(column, [n])), _INT64)
    return builder.add(base, builder.mul(number, ir.Constant(_INT64, ROW)))


def _place(builder: Any, pointer: Any, row: Any, piece: int) -> Any:
    return builder.bitcast(builder.gep(pointer, [builder.add(row, ir.Constant(_INT64, piece))]), _VECTOR.as_pointer())


def _load(builder: Any, pointer: Any, row: Any, piece: int) -> Any:
    loaded = builder.load(_place(builder, pointer, row, piece))
    loaded.align = 4
    return loaded


def _load_both(builder: Any, pointer: Any, row: Any, step: Any) -> list[Any]:
    return [_load(builder, pointer, at, piece) for at in (row, builder.add(row, step)) for piece in _PIECES]


def _store(builder: Any, vector: Any, pointer: Any, row: Any, piece: int) -> None:
    builder.store(vector, _place(builder, pointer, row, piece)).align = 4


def _everywhere(builder: Any, number: Any) -> Any:
    """The number in all lanes."""
    one = builder.insert_element(ir.Constant(_VECTOR, ir.Undefined), number, ir.Constant(_INT32, 0))
    return _pick(builder, one, one, [0] * LANES)


def _pick(builder: Any, a: Any, b: Any, lanes: list[int]) -> Any:
    """The named lanes, those of b being counted on from those of a."""
    mask = ir.Constant(ir.VectorType(_INT32, len(lanes)), lanes)
    return builder.shuffle_vector(a, b, mask)


def _sum_lanes_of_four(builder: Any, vectors: list[Any]) -> Any:
    """Sums of the lanes of four vectors, as one vector of four: halves are added until one lane of each is left."""

    def fold(a: Any, b: Any, keeps: Callable[[int], bool], n_lanes: int) -> Any:
        kept = [lane for lane in range(n_lanes) if keeps(lane)]
        rest = [lane for lane in range(n_lanes) if not keeps(lane)]
        return builder.fadd(_pick(builder, a, b, kept), _pick(builder, a, b, rest))

    pairs = [fold(a, b, lambda lane: lane % 16 < 8, 32) for a, b in (vectors[:2], vectors[2:])]
    quarters = fold(pairs[0], pairs[1], lambda lane: lane % 8 < 4, 32)
    halves = fold(quarters, quarters, lambda lane: lane % 4 < 2, 16)
    return fold(halves, halves, lambda lane: lane % 2 < 1, 8)


def _transposed(builder: Any, rows: list[Any]) -> list[Any]:
    """Sixteen rows of sixteen, transposed by exchanging ever bigger squares."""
    stride = 1
    while stride < LANES:
        low = [lane if not lane & stride else LANES + lane - stride for lane in range(LANES)]
        high = [lane + stride if not lane & stride else LANES + lane for lane in range(LANES)]
        for i in range(LANES):
            if not i & stride:
                a, b = rows[i], rows[i + stride]
                rows[i], rows[i + stride] = _pick(builder, a, b, low), _pick(builder, a, b, high)
        stride *= 2
    return rows
