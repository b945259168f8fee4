"""Break the proofs on purpose and see whether the tests notice.

Each mutant is one textual change to a copy of the package, in what a certificate, the recheck of a dynamic screen, the
screening rules or a checkpoint promise. The tests named with it run against the copy; a mutant that they let pass is
listed with the reason why it may, or makes the script fail.

    python benchmarks/mutants.py                 all of them, some ten minutes
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
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

CERTIFICATE, ROUNDING, RECHECK = "certificate.py", "rounding.py", "engine/recheck.py"
PROOFS = ("tests/test_recheck.py", "tests/test_rounding.py")


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
        "np.maximum(r, s) / (1.0 - s)",
        "0.5 * np.maximum(r, s) / (1.0 - s)",
    ),
    Mutant(
        "reach of absent edges halved",
        CERTIFICATE,
        "products_of_members(np.sqrt(dual[system.diagonal]), r, ",
        "products_of_members(np.sqrt(dual[system.diagonal]), 0.5 * r, ",
        ("tests/test_certificate.py", *PROOFS),
    ),
    Mutant("present without a reach", CERTIFICATE, "(1.0 + _ROUNDING) * reach", "0.0 * reach"),
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
        "_ROUNDING = 16.0 * ",
        "_ROUNDING = 0.0 * ",
        PROOFS,
        "the raised gap is the larger of the two allowances wherever an edge was found at the boundary",
    ),
    Mutant(
        "gap without its third order",
        CERTIFICATE,
        "(1.0 + root / (1.5 * (1.0 - root)))",
        "1.0",
        ("tests/test_certificate.py",),
    ),
    Mutant(
        "gap halved",
        CERTIFICATE,
        "np.asarray(0.5 * squares * (",
        "np.asarray(0.25 * squares * (",
        ("tests/test_certificate.py",),
    ),
    Mutant(
        "allowed gap thirtyfold in solvers",
        "solvers/base.py",
        "else self.tol * max(self.unit",
        "else 30.0 * self.tol * max(self.unit",
    ),
    Mutant(
        "allowed gap thirtyfold in the status",
        "engine/execute.py",
        "if certificate.relative_gap <= options.tol:",
        "if certificate.relative_gap <= 30.0 * options.tol:",
    ),
    Mutant(
        "tolerance that does not follow the weights",
        "problem.py",
        "return float(self.weights.mean())",
        "return 1.0",
        ("tests/test_scales.py",),
    ),
    Mutant("objective without rounding", "engine/prove.py", "objective=objective + rounding", "objective=objective"),
    Mutant(
        "gap without rounding of the objective",
        "engine/prove.py",
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
    Mutant("rounding is never the reason", "engine/execute.py", 'why = "rounding"', "pass"),
    Mutant(
        "ties are proved",
        "engine/screen.py",
        "tied = penalty.strong(raised, factor)",
        "tied = penalty.strong(raised, factor) & False",
    ),
    Mutant(
        "doubtful cuts are proved",
        "engine/prove.py",
        "        doubtful += screen.doubtful_cuts()\n",
        "        pass\n",
        ("tests/test_certificate.py", "tests/test_exactness.py"),
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
        "rows.pairs[~hold]",
        "rows.pairs[~hold & (len(hold) < 0)]",
        ("tests/test_certificate.py", *PROOFS),
    ),
    Mutant(
        "the global rule forgets a class",
        "penalties/group.py",
        "for k in range(rows.shape[1]):",
        "for k in range(rows.shape[1] - 1):",
        ("tests/test_screening.py",),
    ),
    Mutant(
        "a merge joins nothing",
        "screening/dynamic.py",
        "np.concatenate([joined, classes])",
        "np.concatenate([joined, classes & (len(classes) < 0)])",
    ),
)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("words", nargs="*", help="parts of names of mutants")
    parser.add_argument("--list", action="store_true", help="name them and stop")
    options = parser.parse_args()
    chosen = [m for m in MUTANTS if not options.words or any(word in m.name for word in options.words)]
    if options.list:
        print("\n".join(f"{m.name}: {m.file}" for m in chosen))
        return 0
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder, "src")
        shutil.copytree(ROOT / "src", copy)  # with the compiled kernels and their time stamps
        wrong = [m.name for m in chosen if not _as_expected(m, copy)]
    print(f"{len(chosen)} mutants, {len(wrong)} not as expected" + "".join(f"\n  {name}" for name in wrong))
    return int(bool(wrong))


def _as_expected(mutant: Mutant, source: Path) -> bool:
    """Whether the tests notice a mutant, or it is known why they do not."""
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
        "PYTHONPATH": str(source),
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
