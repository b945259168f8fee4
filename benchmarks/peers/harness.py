"""One peer on one problem, from its start to its row."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scipy import sparse

from peers.adapters import Peer, peer_at
from peers.judge import TARGET, Judge
from peers.problems import Problem

#: What the libraries below the peers take their number of threads from.
THREADS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS", "RAYON_NUM_THREADS")

#: Seconds a peer may take to import and compile.
START_LIMIT = 300.0


@dataclass(frozen=True)
class Limits:
    """What a peer may use."""

    seconds: float = 120.0
    """Of one solve."""
    threads: int = os.cpu_count() or 1
    mebibytes: float = 0.8 * os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**20


class Ended(Exception):
    """The peer's process gives no more answers; says why."""


class Child:
    """The process of a peer, killed with all its own children at the end."""

    def __init__(self, place: str, problem_file: Path, folder: Path, limits: Limits) -> None:
        self.folder = folder
        self._errors = folder / "stderr"
        command = [sys.executable, "-m", "peers.child", place, problem_file, folder, limits.mebibytes]
        settings = dict.fromkeys(THREADS, str(limits.threads)) | {"PYTHONPATH": os.pathsep.join(sys.path)}
        with open(self._errors, "w") as errors:
            self._process = subprocess.Popen(
                [str(part) for part in command],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                env=os.environ | settings,
                start_new_session=True,
            )

    def __enter__(self) -> Child:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            pipe.close()

    def ask(self, tolerance: float) -> None:
        self._process.stdin.write(f"{tolerance!r}\n")
        self._process.stdin.flush()

    def answer(self, seconds: float) -> dict[str, Any]:
        if not select.select([self._process.stdout], [], [], seconds)[0]:
            raise Ended(f"time limit, {seconds:g} s")
        line = self._process.stdout.readline()
        if line:
            return json.loads(line)
        code = self._process.wait()
        said = self._errors.read_text().strip().splitlines()
        if code == -signal.SIGKILL:
            raise Ended("killed, most likely out of memory")
        raise Ended(f"{f'signal {-code}' if code < 0 else 'failed'}: {said[-1][:150] if said else 'no message'}")


def measure(problem: Problem, problem_file: Path, place: str, judge: Judge, goal: float, limits: Limits) -> dict:
    """The row of a peer, which goes up its ladder until the judge sees `goal`; `status` is empty at the target."""
    peer = peer_at(place)
    row = {"problem": problem.name, "p": problem.S.shape[1], "K": len(problem.S), "lambda1": problem.lambda1,
           "lambda2": problem.lambda2, "peer": peer.name, "attempts": []}  # fmt: skip
    if reason := peer.takes(problem):
        return row | {"status": f"not comparable: {reason}"}
    if reason := peer.available():
        return row | {"status": f"not available: {reason}"}
    status = ""
    with tempfile.TemporaryDirectory() as folder, Child(place, problem_file, Path(folder), limits) as child:
        try:
            row |= child.answer(START_LIMIT)
            climb(child, peer, judge, row["attempts"], goal, limits)
        except Ended as end:
            status = str(end)
    return row | verdict(row["attempts"], status)


def climb(child: Child, peer: Peer, judge: Judge, attempts: list[dict], goal: float, limits: Limits) -> None:
    """Try the tolerances in turn; each attempt is kept."""
    for tolerance in peer.ladder:
        child.ask(tolerance)
        attempts.append({"tolerance": tolerance} | child.answer(limits.seconds))
        if "error" in attempts[-1]:
            continue
        files = sorted(child.folder.glob("*.npz"), key=lambda file: int(file.stem))
        attempts[-1]["gap"] = judge.gap([sparse.load_npz(file) for file in files])
        if attempts[-1]["gap"] <= goal:
            return


def verdict(attempts: list[dict], ended: str) -> dict:
    """The loosest tolerance that reaches the target; without one the nearest, and a status that says why."""
    judged = [attempt for attempt in attempts if "gap" in attempt]
    reached = [attempt for attempt in judged if attempt["gap"] <= TARGET]
    if reached:
        return {"status": "", **reached[0]}
    if not judged:
        return {"status": ended or (attempts[-1]["error"] if attempts else "no answer")}
    nearest = min(judged, key=lambda attempt: attempt["gap"])
    errors = [attempt["error"] for attempt in attempts if "error" in attempt]
    return {"status": ended or (errors[-1] if errors else "target not reached"), **nearest}
