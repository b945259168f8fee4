"""What the pages say is run: every block of Python in them, and the calls between backticks in the answers."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import jointglasso as jgl

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
MEASUREMENTS = [("drug", "late"), ("drug", "early"), ("placebo", "late"), ("placebo", "early")]
NAMES = ["TP53", "MDM2", "A", "B", "C", "x5", "x6", "x7"]

#: Blocks that need what a test cannot have: files, a cluster, a device, minutes.
ELSEWHERE = (
    "device=",
    "Client(",
    "cluster",
    "read_table(",
    "adata",
    "scheduler",
    "tickers",
    "20_000",
    "demo",
    "load_rppa",
    "before",
    "width=",
)


def drawn(n, seed, shift=0.0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, len(NAMES)))
    X[:, 1] += (0.8 + shift) * X[:, 0]
    X[:, 3] += 0.9 * X[:, 2]
    return X


@pytest.fixture(scope="module")
def world():
    """Everything that the pages speak of."""
    X = pd.DataFrame(np.vstack([drawn(60, 0), drawn(60, 1, 0.5)]), columns=NAMES)
    y = np.repeat(["ill", "well"], 60)
    chosen = jgl.select(X, y)
    source = jgl.SampleCovariance.from_labels(X, y, scale="correlation")
    panels = {"frame_a": X.iloc[:60], "frame_b": X.iloc[60:].drop(columns="x7")}
    return {
        "np": np, "pd": pd, "jgl": jgl, "X": X, "y": y, "chosen": chosen, "source": source, **panels,
        "networks": jgl.JointNetworks.from_solution(chosen.solution), "solution": chosen.solution, "genes": NAMES[:3],
        "table": X.assign(condition=y), "frame": pd.DataFrame({"age": np.arange(120), "sex": ["f", "m"] * 60}),
        "answers": X.round().clip(-2, 2), "country": y, "S": source, "tested": jgl.infer(X, y),
        "counts": np.random.default_rng(0).poisson(5.0, (120, 8)), "returns": X, "year": y,
        "A": X.iloc[:30], "B": X.iloc[30:60], "C": X.iloc[60:90], "D": X.iloc[90:],
        "samples": {f"{arm}_{time}": X.iloc[i::4] for i, (arm, time) in enumerate(MEASUREMENTS)},
        "person": {f"{arm}_{time}": [f"{arm}{i}" for i in range(30)] for arm, time in MEASUREMENTS},
    }  # fmt: skip


def code_of_answers():
    text = (DOCS / "howto.md").read_text("utf-8")
    spans = re.findall(r"(?<!`)`([^`\n]+)`(?!`)", re.sub(r"```.*?```", "", text, flags=re.S))
    return [span for span in spans if re.match(r"((tested|networks) = )?(jgl|networks|tested)\.\w.*\)$", span)]


def blocks():
    pages = [ROOT / "README.md", *sorted(DOCS.glob("*.md"))]
    for page in pages:
        for number, code in enumerate(re.findall(r"```python\n(.*?)```", page.read_text("utf-8"), flags=re.S)):
            if not any(word in code for word in ELSEWHERE):
                yield pytest.param(code, id=f"{page.stem}-{number}")


def run(code, world):
    exec(compile(code.replace("...", "0.3"), "page", "exec"), dict(world))


@pytest.mark.parametrize("code", code_of_answers())
def test_answers_run(code, world, tmp_path, monkeypatch):
    pytest.importorskip("matplotlib").use("Agg")
    monkeypatch.chdir(tmp_path)
    Path("hallmark.gmt").write_text("repair\tnone\tTP53\tMDM2\tA\n")
    if "shared_and_specific" in code:
        world = {**world, "solution": jgl.solve(world["source"], 0.1, 0.1, penalty="common")}
    if "adata" in code:
        anndata = pytest.importorskip("anndata")
        cells = pd.DataFrame({"cell_type": world["y"]}, index=[str(i) for i in range(120)])
        cells["donor"] = [f"d{i % 12}" for i in range(120)]
        genes = pd.DataFrame({"highly_variable": True}, index=[f"g{j}" for j in range(world["X"].shape[1])])
        world = {**world, "adata": anndata.AnnData(world["X"].to_numpy(), obs=cells, var=genes)}
        if "jgl.pl" in code:
            jgl.tl.networks(world["adata"], "cell_type", lambda1=0.1, lambda2=0.1)
    run(code, world)


@pytest.mark.parametrize("code", list(blocks()))
def test_blocks_run(code, world, tmp_path, monkeypatch):
    pytest.importorskip("matplotlib").use("Agg")
    monkeypatch.chdir(tmp_path)
    run(code, world)
