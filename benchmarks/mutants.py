"""Break the proofs on purpose and see whether the tests notice.

Each mutant is one textual change to a copy of the package, in what a certificate, the recheck of a dynamic screen, the
screening rules or a checkpoint promise. The tests named with it run against the copy; a mutant that they let pass is
listed with the reason why it may, or makes the script fail.

    python benchmarks/mutants.py                 all of them, an hour or two
    python benchmarks/mutants.py --jobs 16       so many at a time, each in a copy of its own
    python benchmarks/mutants.py reach cuts      those whose names contain one of the words
    python benchmarks/mutants.py --sample 60     so many of them, drawn at random with `--seed`
    python benchmarks/mutants.py --list
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from queue import Queue

ROOT = Path(__file__).resolve().parent.parent

#: A mutant with which the tests take longer than so many seconds is noticed.
TIME_LIMIT = 1800.0

CERTIFICATE, ROUNDING, RECHECK = "duality.py", "rounding.py", "engine/recheck.py"
CHECKPOINT, DYNAMIC, SCREEN, FACE = (
    "engine/checkpoint.py",
    "screening/rules.py",
    "engine/screening.py",
    "kernels/column_face.py",
)
PROOFS = ("tests/exactness/test_recheck.py", "tests/exactness/test_rounding.py")
KEPT = ("tests/unit/engine/test_checkpoint.py",)
LATENT, HIDDEN = "solvers/latent.py", ("tests/exactness/test_low_rank.py",)
FUSED = ("tests/exactness/test_recheck.py", "tests/exactness/test_fused.py")
EXACT = (
    "tests/exactness/test_recheck.py",
    "tests/unit/screening/test_screening.py",
    "tests/exactness/test_exactness.py",
)


@dataclass(frozen=True)
class Mutant:
    """`old`, which must occur once in the file, is replaced by `new`."""

    name: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...] = PROOFS
    equivalent: str = ""
    """Why the tests may let it pass."""


MUTANTS = (
    Mutant(
        "reach of present edges halved",
        CERTIFICATE,
        "np.asarray(s / (1.0 - s))",
        "np.asarray(0.5 * s / (1.0 - s))",
    ),
    Mutant(
        "reach of absent edges halved",
        CERTIFICATE,
        "np.sqrt(variance), np.minimum(r, _NO_BOUND)",
        "np.sqrt(variance), np.minimum(0.5 * r, _NO_BOUND)",
        ("tests/exactness/test_certificate.py", *PROOFS),
    ),
    Mutant("present without a reach", CERTIFICATE, "(1.0 + ROUNDING) * radius", "0.0 * radius"),
    Mutant(
        "absent although there",
        CERTIFICATE,
        "    absent &= entries == 0.0\n",
        "",
        PROOFS,
        "the gap, raised by rounding, already keeps every edge inside its reach of the boundary",
    ),
    Mutant(
        "no allowance in comparisons",
        CERTIFICATE,
        "\nROUNDING = 16.0 * ",
        "\nROUNDING = 0.0 * ",
        PROOFS,
        "the raised gap is the larger of the two allowances wherever an edge was found at the boundary",
    ),
    Mutant(
        "gap without its third order",
        CERTIFICATE,
        "(1.0 + radius / (1.5 * (1.0 - radius)))",
        "1.0",
        ("tests/exactness/test_certificate.py",),
    ),
    Mutant(
        "gap halved",
        CERTIFICATE,
        "np.asarray(0.5 * squares * (",
        "np.asarray(0.25 * squares * (",
        ("tests/exactness/test_certificate.py",),
    ),
    Mutant(
        "allowed gap thirtyfold in solvers",
        "solvers/base.py",
        "else self.tol * max(self.unit",
        "else 30.0 * self.tol * max(self.unit",
    ),
    Mutant(
        "allowed gap thirtyfold in the status",
        "engine/runner.py",
        "if certificate.relative_gap <= options.tol:",
        "if certificate.relative_gap <= 30.0 * options.tol:",
    ),
    Mutant(
        "tolerance that does not follow the weights",
        "problem.py",
        "return float(self.weights.mean())",
        "return 1.0",
        ("tests/exactness/test_scales.py",),
    ),
    Mutant("objective without rounding", "engine/certify.py", "objective=objective + rounding", "objective=objective"),
    Mutant(
        "gap without rounding of the objective",
        "engine/certify.py",
        "for o in outcomes) + 2.0 * rounding,\n        rounding",
        "for o in outcomes),\n        rounding",
    ),
    Mutant("inverse without error", ROUNDING, "self.eta = np.where((eta", "self.eta = 0.0 * np.where((eta"),
    Mutant(
        "logarithm of the determinant without error",
        ROUNDING,
        "self.logdet_error = _HIGHER_ORDERS",
        "self.logdet_error = 0.0 * _HIGHER_ORDERS",
    ),
    Mutant("rounding is never the reason", "engine/runner.py", 'why = "rounding"', "pass"),
    Mutant(
        "ties are proved",
        "engine/screening.py",
        "borderline = penalty.violates_global_condition(raised, factor)",
        "borderline = penalty.violates_global_condition(raised, factor) & False",
    ),
    Mutant(
        "doubtful cuts are proved",
        "engine/certify.py",
        "        n_uncertified += screen.n_unverified()\n",
        "        pass\n",
        ("tests/exactness/test_certificate.py", "tests/exactness/test_exactness.py"),
    ),
    Mutant(
        "violated pairs are not merged",
        RECHECK,
        "failed = wanted.any(axis=1)\n",
        "failed = wanted.any(axis=1) & (len(wanted) < 0)\n",
    ),
    Mutant(
        "cuts are proved whatever the gap",
        RECHECK,
        "rows.entries[~certified[rows.row]]",
        "rows.entries[~certified[rows.row] & (len(certified) < 0)]",
        ("tests/exactness/test_certificate.py", *PROOFS),
    ),
    Mutant(
        "the global rule forgets a class",
        "penalties/group.py",
        "for k in range(rows.shape[1]):",
        "for k in range(rows.shape[1] - 1):",
        ("tests/unit/screening/test_screening.py",),
    ),
    Mutant(
        "a merge joins nothing",
        SCREEN,
        "self._join(*(np.concatenate(part) for part in zip(self._edges, *violated, strict=True)))",
        "self._join(*self._edges)",
    ),
    Mutant("a checkpoint ignores the data", CHECKPOINT, '"data": fingerprint(source)', '"data": ""', KEPT),
    Mutant(
        "a checkpoint ignores the lambdas",
        CHECKPOINT,
        "        **{field.name: _plain(",
        "        **{field.name: 0 if field.name.startswith('lambda') else _plain(",
        KEPT,
    ),
    Mutant("a checkpoint ignores the kind of penalty", CHECKPOINT, "type(penalty).__name__", '"any"', KEPT),
    Mutant(
        "a checkpoint ignores the class graph",
        CHECKPOINT,
        "isinstance(value, int | float | str) else _digest(np.asarray(value))",
        "isinstance(value, int | float | str) else 0",
        KEPT,
    ),
    Mutant("a checkpoint ignores the weights", CHECKPOINT, "problem.weights.tolist()", "0", KEPT),
    Mutant("a checkpoint ignores the diagonal", CHECKPOINT, "problem.penalize_diagonal,", "0,", KEPT),
    Mutant(
        "a checkpoint ignores pair weights",
        CHECKPOINT,
        "None if problem.pair_weights is None else _digest(*problem.pair_weights.exceptions)",
        "None",
        KEPT,
    ),
    Mutant(
        "what was saved is believed",
        "engine/solve_task.py",
        "    if not task.unsolved(bounds).any():\n        return task, SolverResult(theta",
        "    if True:\n        return task, SolverResult(theta",
        KEPT,
    ),
    Mutant(
        "a snapshot passes for a result",
        CHECKPOINT,
        'in ("interrupt", "callback", "max_iter")',
        'in ("interrupt", "max_iter")',
        KEPT,
        "the gap of what is read is computed anew, so that the name of a file is no claim",
    ),
    Mutant(
        "cut covariances without the weights of their classes",
        RECHECK,
        "screened_out[index, k] = -problem.weights[k] * problem",
        "screened_out[index, k] = -problem",
        EXACT,
    ),
    Mutant(
        "cut covariances do not count",
        RECHECK,
        "screened_out[index, k] = -problem",
        "screened_out[index, k] = -0.0 * problem",
        EXACT,
    ),
    Mutant("pairs that wait are left out", RECHECK, "return self.deferred\n", "return self.deferred[:0]\n", EXACT),
    Mutant(
        "a tied pair that is not zero is left out",
        RECHECK,
        "            matters |= theta[system.upper[entries]] != 0.0\n",
        "",
        FUSED,
        "at an entry that is not zero the subgradient is at least its l1 part: the threshold itself",
    ),
    Mutant(
        "the reach does not count in what is looked at",
        RECHECK,
        "np.abs(self._subgradient(bounds.inverse, entries))) + radius",
        "np.abs(self._subgradient(bounds.inverse, entries)))",
        FUSED,
    ),
    Mutant("theta has no reach", RECHECK, "radius = theta_radius(", "radius = 0.0 * theta_radius(", FUSED),
    Mutant("nothing leaks", RECHECK, "(u - wanted) / self.problem.weights)", "0.0 * u)", EXACT),
    Mutant("leaks without the weights", RECHECK, "(u - wanted) / self.problem.weights)", "u - wanted)", EXACT),
    Mutant("leaks cost a fifth", "engine/certify.py", "weight * 0.5 * (norm / slack)", "weight * 0.1 * (norm / slack)"),
    Mutant(
        "pairs do not wait",
        DYNAMIC,
        "waits = (pairs.exceeds_lambda1",
        "waits = (False & pairs.exceeds_lambda1",
        EXACT,
    ),
    Mutant("only positive pairs are joined", DYNAMIC, "[strong], factor) != 0", "[strong], factor) > 0", EXACT),
    Mutant(
        "a dynamic screen that is never checked",
        SCREEN,
        "if self.deferred is None or not any(len(i) for i, _, _ in violated):",
        "if True:",
        EXACT,
    ),
    Mutant(
        "what rounding kept inside counts as outside the doubt",
        SCREEN,
        "(1.0 + (8.0 + self.partition.n_classes) * _EPS)",
        "1.0",
        PROOFS,
    ),
    Mutant(
        "the hybrid closure ends after one round",
        "screening/hybrid.py",
        "        if not len(chosen):\n",
        "        if len(chosen) >= 0:\n",
        ("tests/exactness/test_fused.py", "tests/unit/screening/test_screening.py"),
    ),
    Mutant(
        "a face forgets its clusters",
        FACE,
        "    if face.merged:\n",
        "    if False:\n",
        ("tests/unit/kernels/test_column_face.py",),
    ),
    Mutant(
        "a step on a face that is not judged",
        FACE,
        "if _value(penalty, n, trial, trial_product, column) < before:",
        "if True:",
        ("tests/unit/kernels/test_column_face.py",),
    ),
    Mutant(
        "a latent dual point outside its cone", LATENT, "share = min(1.0, problem.mu / largest)", "share = 1.0", HIDDEN
    ),
    Mutant("no latent variables whatever is seen", LATENT, "<= problem.mu\n", "<= np.inf\n", HIDDEN),
    Mutant("no latent variables although within reach", LATENT, "two / (1.0 + far)", "two", HIDDEN),
)

EDGES, SCREENED, BOUNDS = (
    ("tests/exactness/test_certificate.py",),
    ("tests/unit/screening/test_screening.py",),
    ("tests/exactness/test_certificate.py", "tests/exactness/test_rounding.py"),
)
CONDITIONS, HYBRID, RULES, PAIRS = (
    "screening/partition.py",
    "screening/hybrid.py",
    "screening/rules.py",
    "screening/pairs.py",
)
GROUP, LAPLACIAN, GRAPH, BASE = (
    "penalties/group.py",
    "penalties/laplacian.py",
    "penalties/class_graph.py",
    "penalties/base.py",
)
BALL = ("tests/unit/penalties/test_maximum.py",)
TIED = ("tests/exactness/test_fused.py", "tests/unit/kernels/test_fused_pairs.py", "tests/exactness/test_recheck.py")
EQUAL, EQUAL_TESTS = (
    "engine/task_result.py",
    ("tests/unit/solution/test_edge_clusters.py", "tests/exactness/test_fused.py"),
)
TESTS, ERRORS, SUPPORT, ESTIMATES = (
    "inference/tests.py",
    "inference/standard_errors.py",
    "inference/support.py",
    "inference/estimates.py",
)
INFERENCE = ("tests/statistics/test_inference.py", "tests/statistics/test_inference_levels.py")
CERTIFY, UNBOUNDED = "engine/certify.py", ("tests/exactness/test_scales.py",)

#: Chosen by reading the sources from top to bottom, not the tests.
FURTHER = (
    Mutant(
        "gap radius of the inverse is that of Theta",
        CERTIFICATE,
        "_root(np.sqrt(2.0 * x) + x, x, 1.0)",
        "_root(np.sqrt(2.0 * x), x, 1.0)",
        BOUNDS,
    ),
    Mutant(
        "radii from a gap without its weight",
        CERTIFICATE,
        "x = np.asarray(gap / weight, dtype=float)\n    return _root(np.sqrt(2.0 * x) + x",
        "x = np.asarray(gap * 1.0, dtype=float)\n    return _root(np.sqrt(2.0 * x) + x",
        BOUNDS,
    ),
    Mutant("Newton's root without a margin", CERTIFICATE, "root * (1.0 + 1e-6)", "root * (1.0 - 1e-6)", BOUNDS),
    Mutant(
        "a radius that does not follow the units",
        CERTIFICATE,
        "np.sqrt(theta[system.diagonal]), radius, entries)",
        "np.ones(len(system.diagonal)), radius, entries)",
        BOUNDS,
    ),
    Mutant(
        "partly screened pairs are proved absent",
        CERTIFICATE,
        "absent &= system.of_entries(np.diff(system.pair_start) == system.n_classes)",
        "pass",
        ("tests/exactness/test_certificate.py", "tests/exactness/test_recheck.py"),
    ),
    Mutant(
        "a compared diagonal has a known variance",
        CERTIFICATE,
        "r, variance = r / np.maximum(1.0 - s, 1.0 / _NO_BOUND), np.abs(variance)",
        "variance = np.abs(variance)",
        ("tests/exactness/test_fused_diagonal.py", "tests/exactness/test_certificate.py"),
    ),
    Mutant(
        "the objective forgets the diagonal's penalty",
        CERTIFICATE,
        "likelihood + diagonal_penalty * diagonal, np.inf)",
        "likelihood, np.inf)",
        BOUNDS,
    ),
    Mutant(
        "the objective counts pairs once",
        CERTIFICATE,
        "pairs = 2.0 * penalty.value(entries, system.entries(penalty))\n    total",
        "pairs = penalty.value(entries, system.entries(penalty))\n    total",
        BOUNDS,
    ),
    Mutant(
        "an indefinite Theta has a finite objective",
        CERTIFICATE,
        "per_block = np.where(factor.definite, likelihood",
        "per_block = np.where(True | factor.definite, likelihood",
        BOUNDS,
    ),
    Mutant(
        "forbidden pairs are held in the dual point",
        CERTIFICATE,
        "    W[system.forbidden] = forbidden\n",
        "",
        ("tests/exactness/test_pair_weights.py",),
    ),
    Mutant(
        "the gap of a far point is its lower bound",
        CERTIFICATE,
        "np.maximum(exact[usable], root - np.log1p(root))",
        "root - np.log1p(root)",
        BOUNDS,
    ),
    Mutant(
        "the quadratic bound holds everywhere",
        CERTIFICATE,
        "(np.sqrt(squares) < _quadratic_norm(system)) & factor.definite",
        "(np.sqrt(squares) < 0.99) & factor.definite",
        BOUNDS,
    ),
    Mutant(
        "the Fenchel gap is forgotten",
        CERTIFICATE,
        "gap = system.sum_pairs_per_group(2.0 * np.maximum(loss, 0.0))",
        "gap = system.sum_pairs_per_group(0.0 * loss)",
        BOUNDS,
    ),
    Mutant(
        "a safe point that is not shrunk",
        CERTIFICATE,
        "-S / system.of_entries(worst[system.pair_group]), 0.0)",
        "-S, 0.0)",
        BOUNDS,
    ),
    Mutant("half of the rounding of an inverse", ROUNDING, "eta = _g(p + 1.0) * p * (", "eta = 0.0 * p * (", BOUNDS),
    Mutant(
        "rounding of the residual is forgotten",
        ROUNDING,
        "+ 16.0 * _UNIT * p * b_max",
        "",
        BOUNDS,
    ),
    Mutant(
        "an inverse without meaning has a small error",
        ROUNDING,
        "np.where((eta * np.sqrt(p) <= _FIRST_ORDER) & definite, eta, np.inf)",
        "eta",
        BOUNDS,
    ),
    Mutant(
        "the gap error without its first order",
        ROUNDING,
        "+ np.sqrt(2.0 * (1.0 + conditioning.products) * small_gap) * delta + delta**2",
        "+ delta**2",
        BOUNDS,
    ),
    Mutant(
        "far gaps without their rounding",
        ROUNDING,
        "error = np.where(is_large, error + direct_gap_error(conditioning, dual, p), error)",
        "pass",
        BOUNDS,
    ),
    Mutant(
        "sums without rounding",
        ROUNDING,
        "system.sum_per_group(weight * logdet_error) + _g(chain) * largest",
        "system.sum_per_group(weight * logdet_error)",
        BOUNDS,
    ),
    Mutant(
        "a rounded objective counts pairs once",
        ROUNDING,
        "pair_values = 2.0 * penalty.value(",
        "pair_values = penalty.value(",
        BOUNDS,
    ),
    Mutant(
        "KKT violations of classes inside blocks",
        RECHECK,
        "& ~rows.class_mask\n        failed",
        "| rows.class_mask\n        failed",
        EXACT,
    ),
    Mutant(
        "violations are looked for at Theta alone",
        RECHECK,
        "kkt_violated(rows.theta, u, rows.factor)",
        "kkt_violated(rows.theta, 0.0 * u, rows.factor)",
        EXACT,
    ),
    Mutant(
        "groups with violations are refined",
        RECHECK,
        "if not len(unresolved) or len(violated[0]) or",
        "if not len(unresolved) or",
        EXACT,
        "costs time, and the groups are merged all the same",
    ),
    Mutant(
        "refined points are taken though worse",
        RECHECK,
        "if not (refined.bounds.gap < known.gap).any():",
        "if False:",
        EXACT,
        equivalent="of the refined and the known point of each group the better one is kept in any case",
    ),
    Mutant(
        "subgradients of a dual point always fit",
        RECHECK,
        "return bool((difference <= self.system.weigh(rounding, entries)).all())",
        "return True",
        FUSED,
    ),
    Mutant("leaks without their third order", CERTIFY, "slack = 1.0 - float(s[0]) - norm", "slack = 1.0", PROOFS),
    Mutant(
        "the total gap without the parts",
        CERTIFY,
        "total = math.fsum(float(gap.sum()) for gap in gaps)",
        "total = 0.0 * math.fsum(float(gap.sum()) for gap in gaps)",
        ("tests/exactness/test_recheck.py", "tests/exactness/test_certificate.py"),
    ),
    Mutant("group gaps without rounding", CERTIFY, "outcome.gap + 2.0 * outcome.rounding", "outcome.gap", BOUNDS),
    Mutant(
        "cut entries are proved though uncertified",
        CERTIFY,
        "edges_absent=absent + n_screened_out - n_uncertified",
        "edges_absent=absent + n_screened_out",
        BOUNDS,
    ),
    Mutant(
        "absent variables have edges",
        CERTIFY,
        "(source.n_variables - n) * (source.n_variables - n - 1) // 2",
        "source.n_variables * (source.n_variables - 1) // 2",
        ("tests/exactness/test_missing_variables.py",),
    ),
    Mutant(
        "a safe partition without its gap",
        CERTIFY,
        "bounds.total_gap / n_groups",
        "0.0 * bounds.total_gap",
        ("tests/exactness/test_recheck.py", "tests/exactness/test_certificate.py"),
    ),
    Mutant(
        "values differ when their radii overlap",
        EQUAL,
        "distance > (1.0 + 1e-12) * limit",
        "distance > 0.5 * limit",
        EQUAL_TESTS,
    ),
    Mutant(
        "values differ by the radius of one",
        EQUAL,
        "radii[:, one] + radii[:, two]",
        "np.maximum(radii[:, one], radii[:, two])",
        EQUAL_TESTS,
    ),
    Mutant(
        "equal values are proved equal",
        EQUAL,
        "np.where(distance == 0.0, equal,",
        "np.where(distance == 0.0, True,",
        EQUAL_TESTS,
    ),
    Mutant(
        "a class of another group is a zero",
        EQUAL,
        "proved &= ~(in_other_group[:, one] | in_other_group[:, two])",
        "pass",
        EQUAL_TESTS,
    ),
    Mutant(
        "unproved screens prove equalities",
        EQUAL,
        "    if not screening_proved:\n        pairs",
        "    if False:\n        pairs",
        EQUAL_TESTS,
    ),
    Mutant(
        "condition (8) without the classes",
        CONDITIONS,
        "(np.abs(weighted) > limit)[~joined & in_some[:, None]].any()",
        "(np.abs(weighted) > np.inf)[~joined & in_some[:, None]].any()",
        SCREENED,
    ),
    Mutant(
        "condition (8) without the ball",
        CONDITIONS,
        "if outside_ball.any() or ",
        "if ",
        SCREENED,
    ),
    Mutant(
        "condition (7) with the weaker bound",
        CONDITIONS,
        "- nonzero) == 0, dtype",
        "- nonzero) != 0, dtype",
        (*SCREENED, "tests/exactness/test_theory.py"),
    ),
    Mutant(
        "conditions on the first tile only",
        CONDITIONS,
        "for left_edge in range(top_edge, p, _SIDE):",
        "for left_edge in range(top_edge, top_edge + 1, _SIDE):",
        SCREENED,
    ),
    Mutant(
        "forbidden pairs count in the conditions",
        CONDITIONS,
        "weighted[forbidden] = 0.0",
        "pass",
        ("tests/exactness/test_pair_weights.py", *SCREENED),
    ),
    Mutant(
        "pairs joined in no class are tested",
        HYBRID,
        "partly = ~joined.all(axis=1)",
        "partly = joined.all(axis=1)",
        FUSED,
    ),
    Mutant(
        "forbidden pairs are joined",
        HYBRID,
        "allowed = np.isfinite(coupling_weights(factor)) if len(factor)",
        "allowed = np.isfinite(0.0 * np.nan_to_num(coupling_weights(factor))) if len(factor)",
        ("tests/exactness/test_pair_weights.py",),
        equivalent="the threshold of a forbidden pair is infinite, so that the closure joins nothing",
    ),
    Mutant(
        "closure without weights of classes",
        HYBRID,
        "weights[k] * source.entries(k, i, j)",
        "source.entries(k, i, j)",
        FUSED,
    ),
    Mutant(
        "the strong rule joins every class",
        DYNAMIC,
        "penalty.signs(pairs.weighted[strong], factor) != 0",
        "True",
        SCREENED,
    ),
    Mutant(
        "the class rule for fused penalties",
        RULES,
        '    if rule == "class" and penalty.class_dependent:\n',
        "    if False:\n",
        (*SCREENED, "tests/exactness/test_fused.py"),
    ),
    Mutant(
        "absent variables are joined",
        RULES,
        "return partition.with_isolated(source.absent)",
        "return partition",
        ("tests/exactness/test_missing_variables.py",),
        "their covariances are zero, so that no rule joins them",
    ),
    Mutant(
        "zeros of the group penalty by classes",
        GROUP,
        "np.asarray((largest < factor * self.lambda1) | np.repeat(ball, counts))",
        "np.asarray(largest < factor * (self.lambda1 + self.lambda2))",
        BOUNDS,
    ),
    Mutant(
        "a group ball without the radius",
        GROUP,
        "ball = used * (1.0 + (1.0 + counts) * _ROUNDING) < budget",
        "ball = used < 4.0 * budget",
        BOUNDS,
    ),
    Mutant(
        "screened classes need no condition",
        GROUP,
        "free = ((largest <= lambda1) | in_block).all(axis=1)",
        "free = ((largest <= lambda1 + lambda2) | in_block).all(axis=1)",
        EXACT,
    ),
    Mutant(
        "a pair is proved zero by its blocks",
        GROUP,
        "return np.asarray(free | (zero & fits))",
        "return np.asarray(free | zero)",
        EXACT,
    ),
    Mutant(
        "closure without the other classes",
        GROUP,
        "active = self.violates_global_condition(rows, factor) | joined.any(axis=1)",
        "active = self.violates_global_condition(rows, factor)",
        ("tests/unit/screening/test_screening.py", "tests/exactness/test_exactness.py"),
        "the kernel of Algorithm 1 does it for this penalty",
    ),
    Mutant(
        "the maximum ball as that of the group",
        GROUP,
        'the excesses themselves."""\n        return excess\n',
        'the excesses themselves."""\n        return excess * excess\n',
        BALL,
    ),
    Mutant(
        "a maximum box as that of the group",
        GROUP,
        "self.lambda1 + self.lambda2 / n_classes",
        "self.lambda1 + self.lambda2",
        (*BALL, "tests/exactness/test_big_groups.py"),
    ),
    Mutant(
        "a scaled maximum penalty is a group penalty",
        GROUP,
        "return MaximumPenalty(factor * self.lambda1",
        "return GroupPenalty(factor * self.lambda1",
        BALL,
    ),
    Mutant(
        "the group ball as that of the maximum",
        GROUP,
        "return excess * excess",
        "return excess",
        SCREENED,
    ),
    Mutant(
        "half of the pull of neighbours",
        LAPLACIAN,
        "pull = 2.0 * self.lambda2 * self.graph",
        "pull = self.lambda2 * self.graph",
        ("tests/exactness/test_fused.py", "tests/unit/kernels/test_fused_pairs.py", "tests/exactness/test_recheck.py"),
    ),
    Mutant("neighbours are known exactly", LAPLACIAN, "+ region.u_radius + coupling_radius", "+ region.u_radius", TIED),
    Mutant(
        "an unbounded neighbour has no say",
        LAPLACIAN,
        "np.where(unbounded @ (pull > 0.0), np.inf,",
        "np.where(unbounded @ (pull < 0.0), np.inf,",
        TIED,
    ),
    Mutant(
        "half of the pull of the neighbours",
        LAPLACIAN,
        "pull = 2.0 * self.lambda2 * self.graph",
        "pull = self.lambda2 * self.graph",
        ("tests/exactness/test_recheck.py", "tests/exactness/test_fused.py", "tests/unit/kernels/test_fused_pairs.py"),
    ),
    Mutant(
        "the Laplacian joins no component",
        LAPLACIAN,
        "out[:, members] = out[:, members].any(axis=1, keepdims=True)",
        "pass",
        TIED,
    ),
    Mutant(
        "entries in blocks must be zero",
        GRAPH,
        "return np.asarray((zero | in_block).all(axis=1))",
        "return np.asarray((zero | in_block).any(axis=1))",
        TIED,
    ),
    Mutant(
        "a compared diagonal pays lambda1",
        GRAPH,
        "return replace(self, lambda1=0.0, fuse_diagonal=False)",
        "return replace(self, fuse_diagonal=False)",
        ("tests/exactness/test_fused_diagonal.py",),
    ),
    Mutant(
        "KKT at half a step",
        BASE,
        "self.prox(values, np.ones(len(theta)), entries) != 0.0",
        "self.prox(values, 2.0 * np.ones(len(theta)), entries) != 0.0",
        EXACT,
    ),
    Mutant(
        "Welch's degrees without the classes",
        TESTS,
        "freedom = total**2 / (square**2 / degrees).sum(axis=1)",
        "freedom = degrees.sum() + 0.0 * total",
        INFERENCE,
    ),
    Mutant(
        "one-sided differences",
        TESTS,
        "p: FloatArray = 2.0 * stats.t.sf(np.abs(value)",
        "p: FloatArray = stats.t.sf(np.abs(value)",
        INFERENCE,
    ),
    Mutant(
        "edges tested against the normal",
        TESTS,
        "p: FloatArray = 2.0 * stats.t.sf(statistic, degrees)",
        "p: FloatArray = 2.0 * stats.norm.sf(statistic)",
        INFERENCE,
    ),
    Mutant(
        "an interval from the other limits",
        TESTS,
        "down = np.hypot(estimate[:, 0] - low[:, 0], high[:, 1] - estimate[:, 1])",
        "down = np.hypot(high[:, 0] - estimate[:, 0], estimate[:, 1] - low[:, 1])",
        INFERENCE,
    ),
    Mutant(
        "Welch's F without its correction",
        TESTS,
        "F = Q / (K - 1) / (1.0 + 2.0 * (K - 2) / (K**2 - 1) * correction)",
        "F = Q / (K - 1)",
        INFERENCE,
    ),
    Mutant(
        "a pooled mean without weights",
        TESTS,
        "mean = (weight * z).sum(axis=1, keepdims=True) / weight.sum(axis=1, keepdims=True)",
        "mean = z.mean(axis=1, keepdims=True)",
        INFERENCE,
    ),
    Mutant(
        "degrees of an omnibus test",
        TESTS,
        "stats.chi2.sf(total, z.shape[1])",
        "stats.chi2.sf(total, z.shape[1] - 1)",
        INFERENCE,
    ),
    Mutant(
        "a pooled effect with all degrees",
        TESTS,
        "freedom = total**2 / (weight**2 / degrees).sum(axis=1)",
        "freedom = degrees.sum() + 0.0 * total",
        INFERENCE,
    ),
    Mutant("q-values of the tests that are passed", TESTS, "(n_tests / max(len(p_values), 1))", "1.0", INFERENCE),
    Mutant(
        "variance factors without moderation", ERRORS, "np.maximum(max(1.0, mean), 0.5 * (g + mean))", "g", INFERENCE
    ),
    Mutant(
        "influences without the partial correlation",
        ERRORS,
        "e_i * e_j - 0.5 * rho[:, None] * (e_i**2 + e_j**2)",
        "e_i * e_j",
        INFERENCE,
    ),
    Mutant(
        "residuals given the partner, too",
        ERRORS,
        "e_i, e_j = v_i + r[:, None] * v_j, v_j + r[:, None] * v_i",
        "e_i, e_j = v_i.copy(), v_j.copy()",
        INFERENCE,
    ),
    Mutant(
        "subjects without their correction",
        ERRORS,
        "/ values.shape[1] * n_subjects / (n_subjects - 1.0)",
        "/ values.shape[1]",
        INFERENCE,
    ),
    Mutant("moments without a cross term", ERRORS, "(m4[:, None] + m4 + 2.0 * m22)", "(m4[:, None] + m4)", INFERENCE),
    Mutant("all pairs without the support", ERRORS, "        rho[self.columns, self.rows] -= shift\n", "", INFERENCE),
    Mutant(
        "one correction of the support",
        ERRORS,
        "(dilution * product - (1.0 + dilution) * self.theta_of(i, j))",
        "(dilution * product - self.theta_of(i, j))",
        INFERENCE,
    ),
    Mutant("no lower bound of the diagonal", ERRORS, "np.maximum(unfloored, SMALLEST * theta)", "unfloored", INFERENCE),
    Mutant(
        "a support step of half the strength",
        SUPPORT,
        "return (1.0 - omega) * s, omega * s",
        "return 0.5 * (1.0 - omega) * s, 0.5 * omega * s",
        INFERENCE,
    ),
    Mutant(
        "standard errors with all samples",
        ESTIMATES,
        "np.sqrt(g / (data.sizes - 3.0)), UNKNOWN",
        "np.sqrt(g / data.sizes), UNKNOWN",
        INFERENCE,
    ),
    Mutant(
        "moderated errors with all degrees",
        ESTIMATES,
        "(data.sizes if data.bootstrap_deviations is None else data.effective_sample_size) / 2.0",
        "(data.sizes if data.bootstrap_deviations is None else data.effective_sample_size)",
        INFERENCE,
    ),
    Mutant(
        "directions without a common null vector",
        "engine/minimum.py",
        "if norm < _ZERO:",
        "if norm < 0.0:",
        UNBOUNDED,
    ),
    Mutant(
        "every singular problem is unbounded",
        "engine/minimum.py",
        "            return False\n        before, A",
        "            return True\n        before, A",
        UNBOUNDED,
    ),
    Mutant("forbidden pairs may grow", "engine/minimum.py", " + forbidden * D", "", UNBOUNDED),
)
SPARSE_DUAL, SPARSE_CHECK, SPARSE_FACTOR = (
    "solvers/sparse_dual.py",
    "solvers/sparse_check.py",
    "blocks/sparse_factor.py",
)
_GAP, _BOUNDS = "tests/unit/solvers/test_sparse_dual.py::test_", "tests/unit/blocks/test_sparse_factor.py::test_"
SPARSE_GAP = (
    _GAP + "the_gap_covers_the_distance_to_the_optimum",
    _GAP + "a_point_far_from_the_optimum_has_no_finite_gap_but_is_improved",
)
SPARSE_RADIUS = (_GAP + "the_spectral_radius_is_bounded", _GAP + "products_that_cancel_do_not_lower_the_bound")
SPARSE_LIST = (
    _GAP + "bounds_on_single_numbers",
    "tests/exactness/test_sparse_storage.py::test_pairs_below_the_thresholds_of_the_scan_become_edges",
)
SPARSE_EIGENVALUE = (_BOUNDS + "the_eigenvalue_bound_holds_exactly_for_ill_conditioned_matrices",)
SPARSE_INVERSE = (_BOUNDS + "bounds_on_the_inverse_and_the_determinant_hold_exactly",)
IN_SPARSE_STORAGE = (
    Mutant(
        "sparse: residuals of the working set alone",
        SPARSE_DUAL,
        "(part.has_residual[:, k] | on_set)",
        "on_set",
        SPARSE_GAP,
    ),
    Mutant(
        "sparse: dual points that are not definite",
        SPARSE_DUAL,
        "if not radius < 1.0:",
        "if not radius < 1e9:",
        SPARSE_GAP,
    ),
    Mutant(
        "sparse: squares without their rounding",
        SPARSE_DUAL,
        "float(products.sum()) + rounding)",
        "float(products.sum()))",
        SPARSE_RADIUS,
    ),
    Mutant(
        "sparse: least ratio for the spectral radius",
        SPARSE_DUAL,
        "(y / x).max(initial=0.0)",
        "(y / x).min(initial=1e9)",
        SPARSE_RADIUS,
    ),
    Mutant(
        "sparse: pairs outside the dual ball called inside",
        SPARSE_CHECK,
        "& (margin > 0.0)",
        "& (margin > -box)",
        SPARSE_GAP,
    ),
    Mutant(
        "sparse: entries listed when twice as large",
        SPARSE_CHECK,
        "limit = LISTED_SLACK * self.slack",
        "limit = 2.0 * LISTED_SLACK * self.slack",
        SPARSE_LIST,
    ),
    Mutant(
        "sparse: candidates alone",
        SPARSE_CHECK,
        "first, width = 0 if self.proved else n, 4096",
        "first, width = n, 4096",
        SPARSE_LIST,
    ),
    Mutant(
        "sparse: eigenvalues without backward error",
        SPARSE_CHECK,
        "proved = mu - factor.backward_error[0] - 2.0 * _UNIT * float(diagonal.max())",
        "proved = mu",
        SPARSE_EIGENVALUE,
    ),
    Mutant(
        "sparse: rounding of one operation",
        SPARSE_FACTOR,
        "chain = float(length.max(initial=0)) + 3.0",
        "chain = 0.1",
        SPARSE_EIGENVALUE,
    ),
    Mutant(
        "sparse: sums of the factor without its diagonal",
        SPARSE_FACTOR,
        "sums[:n_columns] += self.pivot * column_sum",
        "sums[:n_columns] *= 1e-9",
        SPARSE_EIGENVALUE,
    ),
    Mutant(
        "sparse: columns without the least eigenvalue",
        SPARSE_CHECK,
        " + rounding) / self.mu",
        " + rounding)",
        SPARSE_INVERSE,
    ),
    Mutant(
        "sparse: inverse a million times as exact",
        SPARSE_CHECK,
        "1.25 * (norm / self.mu",
        "1e-6 * (norm / self.mu",
        SPARSE_INVERSE,
    ),
    Mutant(
        "sparse: determinant without rounding",
        SPARSE_CHECK,
        "return error, 1.1 * relative * scaled",
        "return error, 0.0",
        SPARSE_INVERSE,
    ),
)
MUTANTS = (*MUTANTS, *FURTHER, *IN_SPARSE_STORAGE)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("words", nargs="*", help="parts of names of mutants")
    parser.add_argument("--jobs", type=int, default=1, help="how many at a time")
    parser.add_argument("--sample", type=int, default=None, help="how many, drawn at random")
    parser.add_argument("--seed", type=int, default=0, help="seed of the sample")
    parser.add_argument("--list", action="store_true", help="name them and stop")
    options = parser.parse_args()
    chosen = [m for m in MUTANTS if not options.words or any(word in m.name for word in options.words)]
    if options.sample is not None:
        chosen = random.Random(options.seed).sample(chosen, min(options.sample, len(chosen)))
    if options.list:
        print("\n".join(f"{m.name}: {m.file}" for m in chosen))
        return 0
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(options.jobs) as pool:
        copies: Queue[Path] = Queue()
        for number in range(min(options.jobs, len(chosen))):
            copies.put(Path(shutil.copytree(ROOT / "src", Path(folder, str(number), "src"))))
        every = tuple(dict.fromkeys(test for m in chosen for test in m.tests))
        untouched = pool.submit(_run, every, Path(folder), ROOT / "src")  # a failure there would pass for a kill
        wrong = [
            m.name
            for m, good in zip(chosen, pool.map(lambda m: _as_expected(m, copies), chosen), strict=True)
            if not good
        ]
        if failure := untouched.result():
            wrong.append(f"the code as it is fails {failure}: no kill below counts")
    print(f"{len(chosen)} mutants, {len(wrong)} not as expected" + "".join(f"\n  {name}" for name in wrong))
    return int(bool(wrong))


def _as_expected(mutant: Mutant, copies: Queue[Path]) -> bool:
    """Whether the tests notice a mutant, or it is known why they do not."""
    source = copies.get()
    try:
        return _noticed(mutant, source)
    finally:
        copies.put(source)


def _noticed(mutant: Mutant, source: Path) -> bool:
    path = source / "jointglasso" / mutant.file
    text = path.read_text(encoding="utf-8")
    if text.count(mutant.old) != 1:
        print(f"STALE     {mutant.name}: {text.count(mutant.old)} places in {mutant.file}")
        return False
    began = time.perf_counter()
    stamp = path.stat()
    path.write_text(text.replace(mutant.old, mutant.new), encoding="utf-8")
    try:
        killer = _run(mutant.tests, source.parent, source)
    finally:
        path.write_text(text, encoding="utf-8")
        os.utime(path, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
    seconds = time.perf_counter() - began
    if killer:
        print(f"killed    {mutant.name} by {killer} ({seconds:.0f} s)", flush=True)
    else:
        print(f"survived  {mutant.name} ({seconds:.0f} s): {mutant.equivalent or 'NO TEST NOTICES'}", flush=True)
    return bool(killer or mutant.equivalent)


def _run(tests: tuple[str, ...], folder: Path, source: Path) -> str:
    """Name of the first test that fails, or nothing."""
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "--tb=no", *tests]
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join([str(source), *filter(None, [os.environ.get("PYTHONPATH")])]),
        "PYTHONDONTWRITEBYTECODE": "1",
        "HYPOTHESIS_STORAGE_DIRECTORY": str(folder),
    }
    try:
        done = subprocess.run(
            command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=TIME_LIMIT
        )
    except subprocess.TimeoutExpired:
        return f"the time limit of {TIME_LIMIT:.0f} s"
    lines = [line for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    failed = [line.split(" ", 1)[1].split(" - ")[0] for line in lines]
    if done.returncode == 0:
        return ""
    return failed[0] if failed else f"an error of pytest: {done.stdout[-300:]}{done.stderr[-300:]}"


if __name__ == "__main__":
    sys.exit(main())
