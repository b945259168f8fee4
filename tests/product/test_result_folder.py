"""Result folders: complete or not there, replaced in one step, and nothing of the user's lost, whatever happens."""

import json
import os
import signal
import subprocess
import sys
import time
import warnings

import pytest

from jointglasso.cli.folder import FolderWarning, ResultFolder


def contents(folder):
    return {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*") if path.is_file()}


def build(target, *, overwrite=True, **files):
    """A result with a mark and the files given by name; a double underscore stands for a folder."""
    with ResultFolder(target, overwrite=overwrite).building() as folder:
        (folder / "parameters.json").write_text('{"versions": {"jointglasso": "0"}}')
        for name, text in files.items():
            place = folder / name.replace("__", "/")
            place.parent.mkdir(exist_ok=True)
            place.write_text(text)
    return target


def test_the_mark_lists_the_files_of_a_result(tmp_path):
    target = build(tmp_path / "r", classes__a="1", edges="2")
    kept = json.loads((target / "parameters.json").read_text())
    assert kept["files"] == ["classes/a", "edges", "parameters.json"] and kept["versions"] == {"jointglasso": "0"}


def test_a_new_result_replaces_the_old_one(tmp_path):
    target = build(tmp_path / "r", edges="old", classes__a="old", classes__b="old")
    with warnings.catch_warnings(action="error"):
        build(target, edges="new", classes__a="new")
    found = contents(target)
    assert json.loads(found.pop("parameters.json"))["files"] == ["classes/a", "edges", "parameters.json"]
    assert found == {"edges": "new", "classes/a": "new"}
    assert [path.name for path in tmp_path.iterdir()] == ["r"]


@pytest.mark.parametrize("name", ["notes.txt", "classes/mine.txt", "deep/er/x"])
def test_a_folder_with_other_files_is_not_replaced(tmp_path, name):
    target = build(tmp_path / "r", edges="old", classes__a="old")
    (target / name).parent.mkdir(parents=True, exist_ok=True)
    (target / name).write_text("mine")
    with pytest.raises(ValueError, match=f"holds '{name}' beside its result: move that"):
        ResultFolder(target, overwrite=True)
    assert contents(target)[name] == "mine"


def test_what_is_added_during_the_run_is_kept_beside_the_new_folder(tmp_path):
    target = build(tmp_path / "r", edges="old", classes__a="old")
    with (
        pytest.warns(FolderWarning, match=r"added to .* meanwhile: .* are in"),
        ResultFolder(target, overwrite=True).building() as folder,
    ):
        (folder / "parameters.json").write_text('{"versions": {"jointglasso": "0"}}')
        (target / "classes" / "late.txt").write_text("just saved")
        (target / "link").symlink_to("edges")
    (remaining,) = (path for path in tmp_path.iterdir() if path.name != "r")
    assert not remaining.name.startswith(".") and (remaining / "link").is_symlink()
    earlier = contents(remaining)
    assert earlier["classes/late.txt"] == "just saved" and earlier["edges"] == earlier["classes/a"] == "old"
    assert set(contents(target)) == {"parameters.json"}


def test_a_result_that_lists_no_files_is_not_replaced(tmp_path):
    target = tmp_path / "r"
    target.mkdir()
    (target / "parameters.json").write_text('{"versions": {"jointglasso": "0"}}')
    with pytest.raises(ValueError, match="lists its files"):
        ResultFolder(target, overwrite=True)


def test_a_list_cannot_reach_outside_the_folder(tmp_path):
    target = build(tmp_path / "r", edges="old")
    (tmp_path / "precious").write_text("mine")
    kept = json.loads((target / "parameters.json").read_text())
    kept["files"] += ["../precious", str(tmp_path / "precious")]
    (target / "parameters.json").write_text(json.dumps(kept))
    build(target, edges="new")
    assert (tmp_path / "precious").read_text() == "mine"


def test_a_folder_that_appears_meanwhile_is_not_replaced(tmp_path):
    target = tmp_path / "r"
    with pytest.raises(ValueError, match="exists and is not empty"), ResultFolder(target).building() as folder:
        (folder / "edges").write_text("new")
        target.mkdir()
        (target / "theirs").write_text("first")
    assert contents(target) == {"theirs": "first"} and [path.name for path in tmp_path.iterdir()] == ["r"]


def test_the_old_folder_comes_back_if_the_new_one_cannot_take_its_place(tmp_path, monkeypatch):
    target = build(tmp_path / "r", edges="old")
    renamed = []
    rename = os.rename

    def second_fails(old, new):
        renamed.append(old)
        if len(renamed) == 2:
            raise OSError(5, "broken disk")
        rename(old, new)

    monkeypatch.setattr(os, "rename", second_fails)
    with pytest.raises(OSError, match="broken"):
        build(target, edges="new")
    assert contents(target)["edges"] == "old" and [path.name for path in tmp_path.iterdir()] == ["r"]


def test_a_failure_leaves_no_new_folders(tmp_path):
    with pytest.raises(RuntimeError), ResultFolder(tmp_path / "a" / "b" / "r").building():
        raise RuntimeError
    assert list(tmp_path.iterdir()) == []


# The command line


#: Runs `fit` with a solve that waits to be ended.
WAITING = """
import sys, time
from jointglasso.cli import main
def wait(*_):
    open("waiting", "w").close()
    time.sleep(600)
sys.modules["jointglasso.cli.fit"]._solve = wait
main(sys.argv[1:])
"""


@pytest.fixture
def data(tmp_path):
    file = tmp_path / "data.csv"
    file.write_text("a,b,c\n1,2,3\n2,1,5\n4,4,1\n0,1,1\n")
    return file


def ignore_ctrl_c():
    """As a shell does for what a script begins in the background."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


@pytest.mark.parametrize(
    ("name", "before"), [("SIGTERM", None), ("SIGHUP", None), ("SIGINT", None), ("SIGTERM", ignore_ctrl_c)]
)
def test_a_run_that_is_asked_to_end_leaves_nothing_behind(tmp_path, data, name, before):
    out = tmp_path / "results" / "networks"
    arguments = ["fit", data, "--lambda1", "0.2", "--lambda2", "0.1", "--out", out]
    child = subprocess.Popen(
        [sys.executable, "-c", WAITING, *map(str, arguments)],
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=before,
        cwd=tmp_path,
    )
    deadline = time.monotonic() + 300
    while not (tmp_path / "waiting").exists():
        assert time.monotonic() < deadline and child.poll() is None
        time.sleep(0.05)
    assert list(tmp_path.glob("results/.networks.*.tmp"))  # made before the solve
    child.send_signal(getattr(signal, name))
    _, told = child.communicate(timeout=300)
    assert child.returncode == 3 and told == "Interrupted: no result was written.\n"
    assert {file.name for file in tmp_path.iterdir()} == {"data.csv", "waiting"}


def test_a_place_that_cannot_be_written_is_known_before_the_solve(tmp_path, data):
    out = data / "networks"  # below a file
    arguments = ["fit", data, "--lambda1", "0.2", "--lambda2", "0.1", "--out", out]
    done = subprocess.run(
        [sys.executable, "-c", WAITING, *map(str, arguments)], capture_output=True, text=True, timeout=300, cwd=tmp_path
    )
    assert done.returncode == 2 and f"Could not write {out}" in done.stderr and "samples" not in done.stdout


def test_nohup_is_respected():
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        from jointglasso.cli.session import _terminated_like_interrupted

        with _terminated_like_interrupted():
            assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
            os.kill(os.getpid(), signal.SIGHUP)
            with pytest.raises(KeyboardInterrupt):
                os.kill(os.getpid(), signal.SIGTERM)
                time.sleep(1)
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    finally:
        signal.signal(signal.SIGHUP, before)
