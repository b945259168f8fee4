"""The process of one peer on one problem: answers each tolerance it reads with time and memory, and a file.

    python -m peers.child PEER PROBLEM FOLDER MEBIBYTES

Peak memory is that of the solve alone, above what is held before it: the mark that the system keeps is reset after
imports and compilation, and a fresh process has nothing of the other peers in it.
"""

from __future__ import annotations

import gc
import json
import os
import resource
import sys
import time
from pathlib import Path
from typing import Any

from scipy import sparse

from common import resident_mebibytes
from peers.adapters import Peer, peer_at
from peers.problems import Problem

#: Solves shorter than this are repeated, and the shortest counts: the machine is shared, noise only adds.
SHORT, REPEATS = 10.0, 3


def peak_since(reset: bool = False) -> float:
    """Most MiB held since the last reset."""
    if reset:
        gc.collect()
        Path("/proc/self/clear_refs").write_text("5")
        return resident_mebibytes()
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) / 1024


def attempt(peer: Peer, problem: Problem, tolerance: float, folder: Path) -> dict[str, float]:
    before = peak_since(reset=True)
    seconds, processor, mebibytes = [], [], 0.0
    while len(seconds) < REPEATS and sum(seconds) < SHORT:
        began, busy = time.perf_counter(), time.process_time()
        precision = peer.solve(problem, tolerance)
        seconds.append(time.perf_counter() - began)
        processor.append(time.process_time() - busy)
        mebibytes = mebibytes or peak_since() - before
    for k, Theta in enumerate(precision):
        sparse.save_npz(folder / f"{k}.npz", sparse.csr_array(Theta), compressed=False)
    told = peer.measured or (min(seconds), mebibytes)
    return {"seconds": told[0], "processor_seconds": min(processor), "mebibytes": max(told[1], 0.0)}


def main(place: str, problem_file: str, folder: str, mebibytes: str) -> None:
    replies = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a peer prints must not get between the replies

    def reply(**content: Any) -> None:
        print(json.dumps(content), file=replies, flush=True)

    limit = int(float(mebibytes) * 2**20)
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    peer, problem = peer_at(place), Problem.load(Path(problem_file))
    began = time.perf_counter()
    peer.prepare()
    reply(compile_seconds=time.perf_counter() - began, versions=peer.versions())
    for line in sys.stdin:
        try:
            reply(**attempt(peer, problem, float(line), Path(folder)))
        except MemoryError:
            reply(error="out of memory")
        except Exception as error:  # whatever a peer raises is its result
            reply(error=f"{type(error).__name__}: {' '.join(str(error).split())[:150]}")


if __name__ == "__main__":
    main(*sys.argv[1:])
