"""Break the proofs on purpose and see whether the tests notice.

Each mutant is one textual change to a copy of the package, in what a certificate, the recheck of a dynamic screen, the
screening rules or a checkpoint promise. The tests named with it run against the copy; a mutant that they let pass is
listed with the reason why it may, or makes the script fail.

    python benchmarks/mutants.py                 all of them, some twenty minutes
    python benchmarks/mutants.py --jobs 16       so many at a time, each in a copy of its own
    python benchmarks/mutants.py reach cuts      those whose names contain one of the words
    python benchmarks/mutants.py --list
"""

from __future__ import annotations

import argparse
import os
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

CERTIFICATE, ROUNDING, RECHECK = "duality.py", "rounding.py", "engine/recheck.py"
CHECKPOINT, DYNAMIC, SCREEN, FACE = (
    "engine/checkpoint.py",
    "screening/dynamic.py",
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
        "np.sqrt(variance), np.minimum(r, _ANYWHERE)",
        "np.sqrt(variance), np.minimum(0.5 * r, _ANYWHERE)",
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
        "(1.0 + root / (1.5 * (1.0 - root)))",
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
        "screening/dynamic.py",
        "np.concatenate([joined, classes])",
        "np.concatenate([joined, classes & (len(classes) < 0)])",
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
        "cut[index, k] = -problem.weights[k] * problem",
        "cut[index, k] = -problem",
        EXACT,
    ),
    Mutant(
        "cut covariances do not count", RECHECK, "cut[index, k] = -problem", "cut[index, k] = -0.0 * problem", EXACT
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
    Mutant("theta has no reach", RECHECK, "radius, entries)", "0.0 * radius, entries)", FUSED),
    Mutant("nothing leaks", RECHECK, "(u - wanted) / self.problem.weights)", "0.0 * u)", EXACT),
    Mutant("leaks without the weights", RECHECK, "(u - wanted) / self.problem.weights)", "u - wanted)", EXACT),
    Mutant("leaks cost a fifth", "engine/certify.py", "weight * 0.5 * (norm / slack)", "weight * 0.1 * (norm / slack)"),
    Mutant(
        "pairs do not wait",
        DYNAMIC,
        "waits = (self.pairs.exceeds_lambda1",
        "waits = (False & self.pairs.exceeds_lambda1",
        EXACT,
    ),
    Mutant("only positive pairs are joined", DYNAMIC, "[strong], factor) != 0", "[strong], factor) > 0", EXACT),
    Mutant(
        "a dynamic screen that is never checked",
        SCREEN,
        "        if len(i):\n            self.dynamic.merge",
        "        if len(i) < 0:\n            self.dynamic.merge",
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
        "if _value(penalty, pairs, diagonal, trial, trial_product, workspace) < before:",
        "if True:",
        ("tests/unit/kernels/test_column_face.py",),
    ),
    Mutant(
        "a latent dual point outside its cone", LATENT, "share = min(1.0, problem.mu / largest)", "share = 1.0", HIDDEN
    ),
    Mutant("no latent variables whatever is seen", LATENT, "<= problem.mu\n", "<= np.inf\n", HIDDEN),
    Mutant("no latent variables although within reach", LATENT, "two / (1.0 + far)", "two", HIDDEN),
)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("words", nargs="*", help="parts of names of mutants")
    parser.add_argument("--jobs", type=int, default=1, help="how many at a time")
    parser.add_argument("--list", action="store_true", help="name them and stop")
    options = parser.parse_args()
    chosen = [m for m in MUTANTS if not options.words or any(word in m.name for word in options.words)]
    if options.list:
        print("\n".join(f"{m.name}: {m.file}" for m in chosen))
        return 0
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(options.jobs) as pool:
        copies: Queue[Path] = Queue()
        for number in range(min(options.jobs, len(chosen))):
            copies.put(
                Path(shutil.copytree(ROOT / "src", Path(folder, str(number), "src")))
            )  # with the compiled kernels
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
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    failed = [line.split(" ")[1] for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    if done.returncode == 0:
        return ""
    return failed[0] if failed else f"an error of pytest: {done.stdout[-300:]}{done.stderr[-300:]}"


if __name__ == "__main__":
    sys.exit(main())
