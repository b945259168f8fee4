"""The scan from samples on a CUDA device and on the processor, in turns, and the whole certified solve after it.

    python benchmarks/gpu_scan.py --p 5000 20000 50000 100000 [--repeats 3]
    python benchmarks/gpu_scan.py --p 1000000 --only cuda

K=3 classes of n=200 samples, the modules design of `genome_scale.py`. "scan" is the screening pass with the exact check
of every pair that single precision leaves open; "TFLOP/s" counts two operations a multiplication of the upper triangle;
"solve" is all of `solve`, its scan included. The two must find the same edges.
"""

from __future__ import annotations

import argparse
import time

import numpy as np

import jointglasso as jgl
from common import describe_machine, peak_mebibytes, print_header, print_row
from genome_scale import module_samples
from jointglasso.screening.curve import critical_correlation


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--p", type=int, nargs="+", default=[5000, 20_000, 50_000])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--only", choices=["cpu", "cuda"])
    arguments = parser.parse_args()
    describe_machine()
    jgl.warm_kernels()
    devices = [arguments.only] if arguments.only else ["cuda", "cpu"]
    print_header("p", "device", "first s", "scan s", "TFLOP/s", "solve s", "largest", "edges", "gap", "peak MiB")
    for p in arguments.p:
        lambda2 = 0.1
        lambda1 = 1.05 * critical_correlation(200, p) - lambda2 + 0.08
        samples = module_samples(p, 200, 3)
        sources = {name: jgl.SampleCovariance(samples, scale="correlation", device=name) for name in devices}
        del samples
        first, scan, edges = {}, dict.fromkeys(devices, np.inf), {}
        for name, source in sources.items():
            began = time.perf_counter()
            jgl.screen(source, lambda1, lambda2)
            first[name] = time.perf_counter() - began
        for _ in range(arguments.repeats):
            for name, source in sources.items():
                began = time.perf_counter()
                jgl.screen(source, lambda1, lambda2)
                scan[name] = min(scan[name], time.perf_counter() - began)
        for name, source in sources.items():
            began = time.perf_counter()
            solution = jgl.solve(source, lambda1, lambda2)
            seconds = time.perf_counter() - began
            edges[name] = solution.n_edges
            rate = 3 * 200.0 * p * (p - 1.0) / scan[name] / 1e12
            print_row(
                p, name, f"{first[name]:.2f}", f"{scan[name]:.2f}", f"{rate:.2f}", f"{seconds:.2f}",
                solution.partition.largest, sum(solution.n_edges), f"{solution.certificate.relative_gap:.0e}",
                f"{peak_mebibytes():.0f}",
            )  # fmt: skip
            print("   ", {stage: round(t, 2) for stage, t in solution.timings.items()}, flush=True)
        if len(set(map(tuple, edges.values()))) > 1:
            raise SystemExit(f"the devices disagree: {edges}")


if __name__ == "__main__":
    main()
