"""Loops over rows of 32 single-precision numbers, in vector instructions of 16 lanes.

Left to itself the compiler handles such short rows at a quarter of this speed: it checks at every row whether arrays
overlap, and uses half the width of the registers. These functions say in LLVM's own language what is meant; processors
with narrower registers split the vectors. Rows should begin at multiples of 64 bytes, else every load touches two
lines of the cache.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from jointglasso._typing import FloatArray, IntArray

ROW = 32
LANES = 16

_FLOAT, _INT32, _INT64 = ir.FloatType(), ir.IntType(32), ir.IntType(64)
_VECTOR = ir.VectorType(_FLOAT, LANES)
_PIECES = range(0, ROW, LANES)


class Dots(NamedTuple):
    """Inner products of rows of `left` with rows of `right`: where each is to be added."""

    left: FloatArray
    right: FloatArray
    step: int
    """How much further a row goes on."""
    column: IntArray
    unknown: IntArray
    out: FloatArray


@intrinsic
def add_rows(  # type: ignore[no-untyped-def]
    typing_context, out, at, table, base, entries, begin, end
):
    """``out[at : at + 32] = sum of values[n] * table[base + 32 * column[n] : ... + 32]`` over begin <= n < end.

    The `entries` are a tuple of column and values.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        _, at, _, base, given, begin, end = arguments
        column, values = _pointers(context, builder, entries.types, cgutils.unpack_tuple(builder, given))
        out, table = (_pointers(context, builder, signature.args, arguments)[n] for n in (0, 2))
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
    return types.void(out, integer, table, integer, entries, integer, integer), generate


@intrinsic
def add_four_dots(typing_context, dots, at, base, n):  # type: ignore[no-untyped-def]
    """Add to ``out[unknown[m]]``, n <= m < n + 4, the product of row `at` of `left` and row ``column[m]`` of `right`.

    Both rows go on `step` further: ``left[at : at + 32]`` and ``left[at + step : at + step + 32]``, likewise those of
    `right`, which begin at ``base + 32 * column[m]``. Adding up lanes costs as much as multiplying them.
    """
    return types.void(dots, types.int64, types.int64, types.int64), _generate_dots(4)


@intrinsic
def add_one_dot(typing_context, dots, at, base, n):  # type: ignore[no-untyped-def]
    """As `add_four_dots`, for m = n alone."""
    return types.void(dots, types.int64, types.int64, types.int64), _generate_dots(1)


def _generate_dots(count: int) -> Callable[..., Any]:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        given, at, base, n = arguments
        parts = cgutils.unpack_tuple(builder, given)
        left, right, step, column, unknown, out = _pointers(context, builder, signature.args[0].types, parts)
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
        square, out, at = _pointers(context, builder, signature.args, arguments)
        for top in _PIECES:
            for left in _PIECES:
                rows = [_load(builder, square, ir.Constant(_INT64, (top + i) * ROW), left) for i in range(LANES)]
                for i, row in enumerate(_transposed(builder, rows)):
                    _store(builder, row, out, at, (left + i) * ROW + top)
        return context.get_dummy_value()

    return types.void(square, out, types.int64), generate


def _pointers(context: Any, builder: Any, kinds: Any, values: Any) -> list[Any]:
    """Where the numbers of arrays are; other values as they are."""
    return [
        context.make_array(kind)(context, builder, value=value).data if isinstance(kind, types.Array) else value
        for kind, value in zip(kinds, values, strict=True)
    ]


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
