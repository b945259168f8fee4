"""Our default against every peer, at equal accuracy measured by one judge.

    python benchmarks/peers/run.py [--quick] [--genes FILE.npz] [--only TEXT] [--peers NAME ...] [--log FILE]
    python benchmarks/peers/run.py plot LOG --out FILE.png

All peers get the same covariances and solve the same problem (diagonal free). Each tolerance of a peer is tried in
turn, loosest first, until the judge (`judge.py`) finds a relative gap of 1e-6; what a peer says of itself is not
believed. Each peer runs in a process of its own; a peer that fails, runs out of time or memory, is not installed or
solves another problem has a row that says so. Problems marked in `problems.py` go on to 1e-8, for the plot.
"""

import sys
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # for `peers` and the other benchmarks' `common`
    from peers.cli import main

    main(__doc__)
