"""The command line and the embedded data."""

from __future__ import annotations

import numpy as np
from click.testing import CliRunner

import jointglasso as jgl
from jointglasso.cli import main


def run(*arguments):
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 0, result.output
    return result.output


def test_demo_shows_screens_edges_and_proof():
    shown = run("demo", "--lambda1", "0.6")
    for word in ("hybrid", "BLCA", "shared by all", "Converged", "proved present"):
        assert word in shown


def test_doctor_lists_versions_and_warms_the_kernels():
    shown = run("doctor", "--warm")
    assert f"jointglasso {jgl.__version__}" in shown and "numba" in shown and "Kernels ready" in shown


def test_every_command_has_help_with_an_example():
    for command in main.commands:
        assert "Example:" in run(command, "--help")


def test_wrong_option_is_refused_in_one_line():
    result = CliRunner().invoke(main, ["demo", "--lambda1", "much"])
    assert result.exit_code == 2 and "lambda1" in result.output


def test_embedded_proteins_are_complete_and_labelled():
    table = jgl.datasets.load_rppa()
    assert table.X.shape == (2498, 174) and np.isfinite(table.X).all()
    names, counts = np.unique(table.y, return_counts=True)
    assert dict(zip(names.tolist(), counts.tolist(), strict=True)) == {
        "BLCA": 344, "KIRC": 478, "LGG": 435, "LUAD": 365, "OV": 436, "UCEC": 440,
    }  # fmt: skip
    assert len(set(table.variable_names)) == 174


def test_embedded_proteins_are_a_table_like_those_read_from_files():
    table = jgl.datasets.load_rppa()
    assert isinstance(table, jgl.io.LabelledTable)
    assert len(table.sample_names) == len(set(table.sample_names)) == 2498
    source = table.select(table.variable_names[:5], ["OV", "LGG"]).to_source(correlation=True)
    assert source.class_names == ("LGG", "OV") and source.variable_names == table.variable_names[:5]
    same = jgl.SampleCovariance.from_labels(table.X, table.y, correlation=True).block(2, np.arange(5))
    np.testing.assert_array_equal(source.block(0, np.arange(5)), same)
