"""One sweep over a large group: the thread team of `kernels/team.py` beside numba's `prange`, in turns in one run.

    NUMBA_THREADING_LAYER=omp python benchmarks/parallel_sweeps.py [--variables 300 600 1200] [--repeats 15]

Wall and processor time of a sweep from the same state, medians of the repeats. `prange` gets one workspace for each of
its threads and, as the team, one column at a time.
"""

from __future__ import annotations

import argparse
import statistics
import time

import numba
import numpy as np

from jointglasso import config
from jointglasso.kernels import column_batches
from jointglasso.kernels.column_parts import Column, PairWorkspace
from jointglasso.kernels.columns import Batch, ColumnUpdates, Sweep, update_column
from jointglasso.kernels.pair_types import DualState, GroupPair, PenaltyWorkspace, PermutedBlocks, SparseColumns
from jointglasso.screening.groups import class_blocks
from jointglasso.solvers.column_ascent import ColumnAscent

_couple, _finish = column_batches._couple_batch_column, column_batches._finish_batch
_locate, _mirror = column_batches._locate_batch, column_batches._mirror_rows
_N_MIRROR_TASKS = column_batches._N_MIRROR_TASKS


@numba.njit(parallel=True, nogil=True, error_model="numpy")
def sweep_by_prange(lambda1, lambda2, batch_bounds, column_order, workspaces, sweep, rows):
    """Body of `column_batches.sweep_columns`; `prange` takes arrays only, so that named tuples are built in its loops.

    `workspaces` holds the arrays of `Column`, one of each for every thread.
    """
    c, pair = workspaces
    c0, c1, c2, c3, c4, c5, c6, c7, c8, c9, c10, c11, c12 = c
    p0, p1, p2, p3, p4, p5, p6 = pair
    s0, s1, s2, s3, s4, s5, s6, s7, s8, s9 = sweep.blocks
    W, tau, old = sweep.state
    o0, o1, o2 = old
    u0, u1, u2, u3, u4, u5, u6 = sweep.updates
    tolerance, sums = sweep.tolerance, sweep.sums
    lo, hi = rows[0], rows[1]
    capacity = 2 * o1.shape[0] + 16 * s0.shape[1]
    new = SparseColumns(np.zeros_like(o0), np.empty(capacity, np.int64), np.empty((capacity, o2.shape[1])))
    n_members = s2.shape[0]
    for n in range(batch_bounds.shape[0] - 1):
        begin, end = batch_bounds[n], batch_bounds[n + 1]
        m = end - begin
        _locate(sweep.blocks, Batch(begin, end, lo, hi))
        for task in numba.prange(m):
            h = numba.get_thread_id()
            work = PairWorkspace(p0[h], p1[h], p2[h], p3[h], p4[h], PenaltyWorkspace(p5[h], p6[h]))
            column = Column(
                c0[h], c1[h], c2[h], c3[h], c4[h], c5[h], c6[h], c7[h], c8[h], c9[h], c10[h], c11[h], c12[h], work
            )
            blocks = PermutedBlocks(s0, s1, s2, s3, s4, s5, s6, s7, s8, s9)
            state, updates = (
                DualState(W, tau, SparseColumns(o0, o1, o2)),
                ColumnUpdates(u0, u1, u2, u3, u4, u5, u6),
            )
            update_column(
                GroupPair(lambda1, lambda2), True, column_order[begin + task], Batch(begin, end, lo, hi), column,
                Sweep(blocks, state, tolerance, updates, sums),
            )  # fmt: skip
        for task in numba.prange(_N_MIRROR_TASKS):
            first, last = task * n_members // _N_MIRROR_TASKS, (task + 1) * n_members // _N_MIRROR_TASKS
            _mirror(first, last, PermutedBlocks(s0, s1, s2, s3, s4, s5, s6, s7, s8, s9), Batch(begin, end, lo, hi), W)
        for task in numba.prange(m):
            h = numba.get_thread_id()
            work = PairWorkspace(p0[h], p1[h], p2[h], p3[h], p4[h], PenaltyWorkspace(p5[h], p6[h]))
            column = Column(
                c0[h], c1[h], c2[h], c3[h], c4[h], c5[h], c6[h], c7[h], c8[h], c9[h], c10[h], c11[h], c12[h], work
            )
            blocks = PermutedBlocks(s0, s1, s2, s3, s4, s5, s6, s7, s8, s9)
            state, updates = (
                DualState(W, tau, SparseColumns(o0, o1, o2)),
                ColumnUpdates(u0, u1, u2, u3, u4, u5, u6),
            )
            _couple(
                GroupPair(lambda1, lambda2), m - 1 - task, Batch(begin, end, lo, hi), column,
                Sweep(blocks, state, tolerance, updates, sums),
            )  # fmt: skip
        new = _finish(Batch(begin, end, lo, hi), sweep, new)
    return new


def begin(p: int, n_threads: int) -> ColumnAscent:
    """Sweeps over one group of p variables in two classes, after a first sweep."""
    from jointglasso.blocks import build_system
    from jointglasso.data import as_source
    from jointglasso.penalties import GroupPenalty
    from jointglasso.solvers.base import SolverTask, diagonal_start

    rng = np.random.default_rng(0)
    mixing = np.eye(p) + 0.4 * (rng.random((p, p)) < 4.0 / p)
    S = np.stack([np.corrcoef(rng.standard_normal((200, p)) @ mixing, rowvar=False) for _ in range(2)])
    penalty, labels = GroupPenalty(0.15, 0.05), np.zeros((2, p), dtype=np.int64)
    system = build_system(as_source(S), class_blocks(labels, smallest=2), np.ones(2))
    start = diagonal_start(system, penalty, 0.15)
    task = SolverTask(system, penalty, 0.15, np.ones(system.n_groups), 1e-6, 0.0, 100, start, n_threads=n_threads)
    ascent = ColumnAscent.begin(task, start)
    ascent.sweep()
    return ascent


def by_prange(ascent: ColumnAscent, n_threads: int) -> tuple[float, float]:
    """The same sweep with `prange`, its preparation in Python not included."""
    ascent._arrange_batches()
    max_tolerance, factor = config.COLUMN_TOLERANCE
    tolerance = min(max_tolerance, factor * ascent.change) * ascent.penalty.scale
    n_blocks, sums = len(ascent.blocks.size), np.zeros(3)
    updates = ColumnUpdates.allocate(ascent.blocks.n_classes, ascent.n_variables, ascent._max_batch)
    sweep = Sweep(ascent.permuted_blocks, ascent.state, tolerance, updates, sums)
    m = np.diff(ascent.batch_bounds)
    schedule = np.lexsort((-np.diff(ascent.state.columns.start), np.repeat(np.arange(len(m)), m)))
    schedule -= np.repeat(ascent.batch_bounds[:-1], m)
    columns = [ascent._column(number) for number in range(n_threads)]
    arrays = tuple(np.stack(parts) for parts in zip(*(column[:-1] for column in columns), strict=True))
    flat = [(*column.pair[:-1], *column.pair.work) for column in columns]
    workspaces = arrays, tuple(np.stack(parts) for parts in zip(*flat, strict=True))
    rows, pair = np.zeros((2, n_blocks), dtype=np.int64), ascent.penalty.pair
    began = time.perf_counter(), time.process_time()
    sweep_by_prange(pair.lambda1, pair.lambda2, ascent.batch_bounds, schedule, workspaces, sweep, rows)
    return time.perf_counter() - began[0], time.process_time() - began[1]


def by_team(ascent: ColumnAscent, n_threads: int) -> tuple[float, float]:
    """The sweep as it is, its preparation in Python included."""
    began = time.perf_counter(), time.process_time()
    ascent.sweep()
    return time.perf_counter() - began[0], time.process_time() - began[1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--variables", type=int, nargs="+", default=[300, 600, 1200])
    parser.add_argument("--repeats", type=int, default=15)
    arguments = parser.parse_args()
    n_threads = numba.config.NUMBA_NUM_THREADS
    numba.set_parallel_chunksize(1)
    methods = {"team": by_team, "prange": by_prange}
    for p in arguments.variables:
        times: dict[str, list[tuple[float, float]]] = {name: [] for name in methods}
        for _ in range(arguments.repeats + 1):
            for name, method in methods.items():
                ascent = begin(p, n_threads)
                times[name].append(method(ascent, n_threads))
        for name, seconds in times.items():
            wall, processor = (1e3 * statistics.median(s[i] for s in seconds[1:]) for i in range(2))
            least = 1e3 * min(s[0] for s in seconds[1:])
            print(f"p={p} {name}: wall {wall:.1f} ms (least {least:.1f}), processor {processor:.1f} ms")
    print(f"{n_threads} threads, layer {numba.threading_layer()}")


if __name__ == "__main__":
    main()
