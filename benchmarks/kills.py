"""Kill -9 a checkpointed solve at many random moments: nothing may be lost but work in flight.

    python benchmarks/kills.py --kills 60

A child process solves a problem of many groups and is killed after a random time; the next one goes on from its
checkpoint folder. Whenever a child finishes, its folder is thrown away and the run starts anew. Checked after every
kill: no finished file has changed or gone. Checked after every finished run: the answer equals the uninterrupted one.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import tempfile
import time
from pathlib import Path

import numpy as np

import jointglasso as jgl
from common import describe_machine
from genome_scale import module_samples
from jointglasso import config


def finished_files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.glob("*.npz")} if folder.exists() else {}


def solve_in_child(source: jgl.SampleCovariance, lambdas: tuple[float, float], folder: Path, seconds: float) -> bool:
    """Whether the child finished before it was killed."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            jgl.solve(source, *lambdas, checkpoint=folder).save(folder.parent / "answer.jgl")
            code = 0
        finally:
            os._exit(code)
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.WEXITSTATUS(status) == 0
        time.sleep(0.001)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return False


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=60)
    parser.add_argument("--p", type=int, default=1500)
    arguments = parser.parse_args()
    describe_machine()
    config.BATCH_COST = 1.0  # every group a piece of its own: many files, many moments to be killed at
    source = jgl.SampleCovariance(module_samples(arguments.p, 200, 3), scale="correlation")
    lambdas = (0.28, 0.1)
    draw = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch, "run")
        began = time.perf_counter()
        whole = jgl.solve(source, *lambdas, checkpoint=Path(scratch, "whole"))
        usual = time.perf_counter() - began
        n_files = len(finished_files(Path(scratch, "whole")))
        print(f"uninterrupted: {usual:.2f} s, {n_files} pieces of work")
        kills = runs = 0
        while kills < arguments.kills:
            before = finished_files(folder)
            if solve_in_child(source, lambdas, folder, draw.uniform(0.0, 0.4 * usual)):
                answer = jgl.load(Path(scratch, "answer.jgl"))
                same = all((a != b).nnz == 0 for a, b in zip(answer.precision, whole.precision, strict=True))
                if not same:
                    raise SystemExit("a resumed answer differs from the uninterrupted one")
                runs += 1
                shutil.rmtree(folder)
                continue
            kills += 1
            after = finished_files(folder)
            lost = [name for name in before if after.get(name) != before[name] and "unfinished" not in name]
            if lost:
                raise SystemExit(f"kill {kills} lost finished work: {lost}")
        resumed = jgl.solve(source, *lambdas, checkpoint=folder)
        same = all((a != b).nnz == 0 for a, b in zip(resumed.precision, whole.precision, strict=True))
        print(f"{kills} kills over {runs + 1} runs: no finished piece lost, answers equal bit by bit: {same}")
        if not same:
            raise SystemExit(1)


if __name__ == "__main__":
    main()
