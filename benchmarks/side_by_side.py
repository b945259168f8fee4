"""Two checkouts beside each other in one run, task by task in turns: nothing may become slower.

    python benchmarks/side_by_side.py OLD NEW [--tcga FILE.npz] [--repeats 5] [--only TEXT]

OLD and NEW are checkouts of this repository. Each is loaded into a process of its own; both solve the same problem one
after the other, `repeats` times in turns, and the best time of each counts, by the clock and of the processor, since
noise only adds. `--tcga` is the file
that `real_genes.py` reads. The last column is new over old.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path

SMALL = {
    "p=10, K=2": (10, 2, 0.2, 0.1),
    "p=25, K=1": (25, 1, 0.2, 0.0),
    "p=50, K=3": (50, 3, 0.2, 0.1),
    "p=100, K=1": (100, 1, 0.2, 0.0),
    "p=200, K=3, connected": (200, 3, 0.15, 0.05),
}
FUSION = {f"{penalty} p={p}": (penalty, p) for penalty in ("fused", "chain", "laplacian") for p in (100, 300)}
OVER_TIME = {f"chain K=50, p={p}": p for p in (20, 50)}
PAPER = {f"paper {d}, p=1000, K={K}": (d, K) for d in ("A", "B10", "C40") for K in (2, 6, 10)}
GENES = {
    "TCGA p=2000 (0.6, 0.1)": (2000, 0.6, 0.1),
    "TCGA p=3000 (0.63, 0.1)": (3000, 0.63, 0.1),
    "TCGA p=5000 (0.63, 0.1)": (5000, 0.63, 0.1),
}


def tasks(tcga: str | None) -> list[str]:
    names = [
        "import",
        *SMALL,
        *FUSION,
        *OVER_TIME,
        "weighted pairs p=300",
        "network_test p=50",
        "select p=50",
        "select p=200",
        *PAPER,
    ]
    return names + ["samples p=20000, K=3"] + (list(GENES) if tcga else [])


class Worker:
    """Runs in its own process with one checkout on its path; prepares each task once, then times single calls."""

    def __init__(self, tcga: str | None) -> None:
        self.tcga, self.ready = tcga, {}

    def call(self, name: str) -> dict[str, float]:
        if name == "import":
            began = time.perf_counter()
            subprocess.run([sys.executable, "-c", "import jointglasso"], check=True)
            return {"seconds": time.perf_counter() - began, "processor": 1.0, "value": 0.0}
        if name not in self.ready:
            self.ready = {name: self.prepare(name)}
            self.ready[name]()  # compiles, warms caches
        began, processor = time.perf_counter(), time.process_time()
        value = self.ready[name]()
        return {
            "seconds": time.perf_counter() - began, "processor": time.process_time() - processor, "value": value
        }  # fmt: skip

    def prepare(self, name: str):
        import numpy as np

        import jointglasso as jgl

        rng = np.random.default_rng(0)
        if name in SMALL or name.startswith(("select", "weighted", "network_test")):
            p = SMALL[name][0] if name in SMALL else int(name.split("=")[1])
            n_classes = SMALL[name][1] if name in SMALL else 3
            mixing = np.eye(p) + 0.4 * (rng.random((p, p)) < 2.0 / p)
            X = [rng.standard_normal((150, p)) @ mixing for _ in range(n_classes)]
            if name in SMALL:
                _, _, lambda1, lambda2 = SMALL[name]
                S = np.stack([np.corrcoef(x, rowvar=False) for x in X])
                return lambda: jgl.solve(S, lambda1, lambda2).objective
            samples, labels = np.vstack(X), np.repeat(range(n_classes), 150)
            if name.startswith("weighted"):
                S = np.stack([np.corrcoef(x, rowvar=False) for x in X])
                factors = 1.0 + rng.random((p, p)).round()
                factors = np.maximum(factors, factors.T)
                return lambda: jgl.solve(S, 0.2, 0.05, pair_weights=factors).objective
            if name.startswith("network_test"):
                chosen = labels < 2
                return lambda: sum(
                    jgl.network_test(
                        samples[chosen], labels[chosen], n_permutations=199, random_state=0
                    ).p_values.values()
                )
            grid = jgl.lambda_grid(np.stack([np.corrcoef(x, rowvar=False) for x in X]))
            return lambda: float(jgl.select(samples, labels, grid=grid, criterion="ebic").solution.objective)
        if name in FUSION or name in OVER_TIME:
            penalty, p = FUSION[name] if name in FUSION else ("chain", OVER_TIME[name])
            n_classes = 3 if name in FUSION else 50
            mixing = np.eye(p) + 0.4 * (rng.random((p, p)) < 2.0 / p)
            S = np.stack([np.corrcoef(rng.standard_normal((150, p)) @ mixing, rowvar=False) for _ in range(n_classes)])
            return lambda: jgl.solve(S, 0.2, 0.05, penalty=penalty).objective
        if name in PAPER:
            from common import PAPER_LAMBDAS, paper_covariances

            S = paper_covariances(PAPER[name][0], 1000, PAPER[name][1])
            return lambda: jgl.solve(S, *PAPER_LAMBDAS["P2"]).objective
        if name.startswith("samples"):
            X = [rng.standard_normal((100, 20000)) for _ in range(3)]
            return lambda: jgl.solve(jgl.SampleCovariance(X), 0.55, 0.05).objective
        from real_genes import load

        p, lambda1, lambda2 = GENES[name]
        S = load(self.tcga, p)
        return lambda: jgl.solve(S, lambda1, lambda2).objective

    def serve(self) -> None:
        for line in sys.stdin:
            try:
                answer = self.call(json.loads(line))
            except Exception as error:  # said, and the other tasks go on
                answer = {"error": f"{type(error).__name__}: {error}"}
            print(json.dumps(answer), flush=True)


def start(tree: Path, tcga: str | None) -> subprocess.Popen[str]:
    path = os.pathsep.join([str(tree / "src"), str(Path(__file__).parent)])
    command = [sys.executable, __file__, "--serve", *(["--tcga", tcga] if tcga else [])]
    return subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": path}
    )


def ask(process: subprocess.Popen[str], name: str) -> dict[str, float]:
    process.stdin.write(json.dumps(name) + "\n")
    process.stdin.flush()
    return json.loads(process.stdout.readline())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trees", nargs="*", type=Path)
    parser.add_argument("--tcga")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--only", default="", help="parts of names, separated by semicolons")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.serve:
        Worker(arguments.tcga).serve()
        return
    from common import describe_machine

    describe_machine()
    pair = [start(tree.resolve(), arguments.tcga) for tree in arguments.trees]
    print("| task | old, s | new, s | new / old | in processor time | objectives differ by |")
    print("|---|---|---|---|---|---|")
    for name in tasks(arguments.tcga):
        if not any(part in name for part in arguments.only.split(";")):
            continue
        turns = [[ask(process, name) for process in pair] for _ in range(arguments.repeats)]
        errors = [answer["error"] for answer in turns[0] if "error" in answer]
        if errors:
            print(f"| {name} | {errors[0]} | | | | |", flush=True)
            continue
        old, new = (min(turn[which]["seconds"] for turn in turns) for which in (0, 1))
        cores = [min(turn[which]["processor"] for turn in turns) for which in (0, 1)]
        a, b = (turns[0][which]["value"] for which in (0, 1))
        differ = abs(a - b) / max(1, abs(a))
        ratios = f"{new / old:.2f} | {cores[1] / cores[0]:.2f}"
        print(f"| {name} | {old:.4f} | {new:.4f} | {ratios} | {differ:.0e} |", flush=True)
    for process in pair:
        process.stdin.close()


if __name__ == "__main__":
    main()
