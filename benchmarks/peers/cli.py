"""The command line: run and tabulate, or draw."""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from common import describe_machine, print_header, print_row
from peers.adapters import PEERS, peer_at
from peers.chart import draw
from peers.harness import Limits, measure
from peers.judge import CURVE, TARGET, Judge
from peers.problems import Entry, catalogue

#: Seconds of R's solvers for one class over those of scikit-learn, on the same data on another machine (p=1000).
R_OVER_SKLEARN = {"glassoFast 1.0.1": 0.17 / 3.7, "QUIC 1.1.1": 0.70 / 3.7}


def main(description: str | None) -> None:
    if sys.argv[1:2] == ["plot"]:
        parser = argparse.ArgumentParser(prog="run.py plot", description="Time against accuracy, from a log.")
        parser.add_argument("log", type=Path)
        parser.add_argument("--out", type=Path, required=True)
        parser.add_argument("--only", nargs="+", default=[], metavar="TEXT", help="problems to draw, in this order")
        arguments = parser.parse_args(sys.argv[2:])
        draw(arguments.log, arguments.out, arguments.only)
        return
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a few problems of p <= 300, a minute or two")
    parser.add_argument("--genes", metavar="FILE", help="TCGA expression, see real_genes.py; adds real genes")
    parser.add_argument("--only", default="", metavar="TEXT", help="problems whose name has TEXT in it")
    parser.add_argument("--peers", nargs="+", default=[""], metavar="NAME", help="peers whose name has NAME in it")
    parser.add_argument("--limit", type=float, default=Limits.seconds, metavar="S", help="seconds of one solve")
    parser.add_argument("--threads", type=int, default=Limits.threads, metavar="N", help="threads of every peer")
    parser.add_argument("--memory", type=float, default=Limits.mebibytes, metavar="MIB", help="address space of a peer")
    parser.add_argument(
        "--log", type=Path, default=Path(os.devnull), help="JSON lines, a row each, every attempt in it"
    )
    run(parser.parse_args())


def run(arguments: argparse.Namespace) -> None:
    entries = [entry for entry in catalogue(arguments.genes) if arguments.only in entry.name]
    entries = [entry for entry in entries if entry.quick or not arguments.quick]
    wanted = [text.lower() for text in arguments.peers]
    places = [place for place in PEERS if any(text in peer_at(place).name.lower() for text in wanted)]
    limits = Limits(arguments.limit, arguments.threads, arguments.memory)
    describe_machine()
    for peer in map(peer_at, places):
        print(f"# {peer.name}: {peer.available() or peer.versions()}")
    print(f"# every peer: {limits.threads} threads, {limits.seconds:g} s a solve, {limits.mebibytes:.0f} MiB")
    print_header("problem", "peer", "seconds", "relative gap", "times ours", "MiB", "compile s", "tolerance", "note")
    with open(arguments.log, "a") as log:
        for entry in entries:
            goal = CURVE if entry.curve and not arguments.quick else TARGET
            for row in rows_of(entry, places, goal, limits):
                log.write(json.dumps(row) + "\n")
                log.flush()


def rows_of(entry: Entry, places: list[str], goal: float, limits: Limits) -> Iterator[dict]:
    """Measure and print the rows of one problem; those that do not apply share one line."""
    problem = entry.problem()
    judge = Judge(problem)
    ours, not_comparable = None, []
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "problem.npz")
        problem.save(file)
        for place in places:
            row = measure(problem, file, place, judge, goal, limits)
            row["curve"] = entry.curve
            yield row
            if place == PEERS[0] and not row["status"]:
                ours = row["seconds"]
            if row["status"].startswith("not comparable"):
                not_comparable.append(f"{row['peer']}{row['status'].removeprefix('not comparable')}")
            else:
                print_row(*cells(row, ours))
                scaled_note(row)
    if not_comparable:
        print_row(problem.name, "(not comparable)", *[""] * 6, "; ".join(not_comparable))


def cells(row: dict, ours: float | None) -> list[str]:
    def shown(key: str, form: str) -> str:
        return format(row[key], form) if key in row else ""

    times = format(row["seconds"] / ours, ".3g") if ours and not row["status"] else ""
    return [row["problem"], row["peer"], shown("seconds", ".3g"), shown("gap", ".0e"), times, shown("mebibytes", ".0f"),
            shown("compile_seconds", ".1f"), shown("tolerance", ".0e"), row["status"]]  # fmt: skip


def scaled_note(row: dict) -> None:
    """A line for R's solvers of one class, which need R: an estimate, and said to be one."""
    if row["peer"] == "scikit-learn" and row["p"] == 1000 and not row["status"]:
        for name, ratio in R_OVER_SKLEARN.items():
            note = f"not measured: {ratio:.2g} times scikit-learn's, their ratio on another machine"
            print_row(row["problem"], name, f"about {ratio * row['seconds']:.2g}", *[""] * 5, note)
