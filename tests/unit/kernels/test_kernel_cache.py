"""Compiled kernels where nothing may be written: a temporary folder or no cache, a sentence, and an answer."""

import ast
import json
import os
import pickle
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import jointglasso
from jointglasso import warm
from jointglasso.kernels import column_batches, entries, group_state, jit, small_columns, support_newton

#: Compiles one small kernel, and says where numba keeps it.
ONE_KERNEL = (
    "import numpy as np\nfrom jointglasso.kernels import components\n"
    "found = components.components(2, np.array([0]), np.array([1]))\n"
    "print(found[1], components.components.stats.cache_path)"
)


@pytest.fixture
def locked(tmp_path):
    """A copy of the package beside which nothing can be written, and an environment without any cache folder.

    Files stand where folders would be made, which stops even the administrator.
    """
    package = tmp_path / "site" / "jointglasso"
    shutil.copytree(Path(jointglasso.__file__).parent, package, ignore=shutil.ignore_patterns("__pycache__"))
    (package / "kernels" / "__pycache__").write_text("in the way")
    (tmp_path / "temporary").mkdir()
    return {
        **{name: value for name, value in os.environ.items() if name != "NUMBA_CACHE_DIR"},
        "PYTHONPATH": str(tmp_path / "site"),
        "PYTHONDONTWRITEBYTECODE": "1",
        "HOME": os.devnull,
        "XDG_CACHE_HOME": os.devnull,
        "TMPDIR": str(tmp_path / "temporary"),
    }


def run(arguments, environment, tmp_path):
    return subprocess.run(
        [sys.executable, *arguments], env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=120
    )


def test_kernels_go_to_a_private_temporary_folder_and_one_warning_says_so(locked, tmp_path):
    found = run(["-c", ONE_KERNEL], locked, tmp_path)
    assert found.returncode == 0, found.stderr
    root, folder = found.stdout.split()
    assert root == "0" and Path(folder).is_relative_to(tmp_path / "temporary") and list(Path(folder).glob("*.nbi"))
    assert stat.S_IMODE(Path(folder).parent.stat().st_mode) == 0o700
    assert found.stderr.count("CacheWarning") == 1 and "set the environment variable NUMBA_CACHE_DIR" in found.stderr


def test_without_any_folder_kernels_are_compiled_all_the_same(locked, tmp_path):
    # A file of the name that the folder would have: nothing is left to write to.
    (tmp_path / "temporary" / f"jointglasso-kernels-{os.getuid()}").write_text("in the way")
    found = run(["-c", ONE_KERNEL], locked, tmp_path)
    assert found.returncode == 0, found.stderr
    assert found.stdout.split() == ["0", "None"]
    assert "compiled in every process anew" in found.stderr


@pytest.mark.parametrize("temporary", [True, False])
def test_doctor_names_the_remedy(locked, tmp_path, temporary):
    if not temporary:
        (tmp_path / "temporary" / f"jointglasso-kernels-{os.getuid()}").write_text("in the way")
    found = run(["-m", "jointglasso", "doctor", "--json"], locked, tmp_path)
    assert found.returncode == 0, found.stderr
    kernels = json.loads(found.stdout)["kernels"]
    assert kernels["ready"] == 0 and not kernels["lasting"] and (kernels["folder"] is not None) == temporary
    assert found.stderr.count("NUMBA_CACHE_DIR") == 1 and "Traceback" not in found.stderr


def test_the_usual_folder_is_used_without_a_word(locked, tmp_path):
    (tmp_path / "chosen").mkdir()
    found = run(["-c", ONE_KERNEL], {**locked, "NUMBA_CACHE_DIR": str(tmp_path / "chosen")}, tmp_path)
    assert found.returncode == 0 and found.stderr == ""
    assert Path(found.stdout.split()[1]).is_relative_to(tmp_path / "chosen")


@pytest.mark.parametrize("trap", ["open", "link"])
def test_a_folder_that_others_could_fill_is_not_used(trap, tmp_path, monkeypatch):
    """Compiled code is executed when it is read."""
    monkeypatch.setattr(jit.tempfile, "tempdir", str(tmp_path))
    folder = tmp_path / f"jointglasso-kernels-{os.getuid()}"
    if trap == "open":
        folder.mkdir()
        folder.chmod(0o777)
    else:
        (tmp_path / "theirs").mkdir(mode=0o700)
        folder.symlink_to(tmp_path / "theirs")
    assert jit.private_folder() is None


def test_what_another_version_kept_is_no_obstacle(tmp_path):
    """An index is read before its version is looked at, and may name types that are no more."""
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    for _ in range(2):
        done = subprocess.run([sys.executable, "-c", ONE_KERNEL], env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        (index,) = tmp_path.rglob("components.components-*.nbi")
        with index.open("rb") as file:
            pickle.load(file)
            kept = index.read_bytes()[: file.tell()]
        assert len(kept) < len(index.read_bytes())  # so that there is something to replace, each time
        index.write_bytes(kept + b"cjointglasso.kernels.pair_types\nNoMore\n.")


def test_errors_that_are_not_about_the_cache_are_passed_on():
    def boom(**options):
        raise RuntimeError("something else")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(jit.numba, "njit", boom)
        with pytest.raises(RuntimeError, match="something else"):
            jit.njit(len)


def test_processes_that_need_a_kernel_at_once_compile_it_once(tmp_path):
    code = ONE_KERNEL + "\nprint(sum(components.components.stats.cache_misses.values()))"
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    processes = [
        subprocess.Popen([sys.executable, "-c", code], env=environment, stdout=subprocess.PIPE, text=True)
        for _ in range(3)
    ]
    misses = [int(process.communicate(timeout=120)[0].split()[-1]) for process in processes]
    assert sorted(misses) == [0, 0, 1]


def test_what_is_compiled_ahead_is_what_problems_need():
    """Else it would be compiled for nothing, and again when it is needed."""
    for problem in warm._problems():
        problem()
    kernels = (
        column_batches.sweep_columns, small_columns.ascend_small_groups, entries.update, entries.nearest_subgradient,
        support_newton.sweep_support, support_newton.sandwiched,
    )  # fmt: skip
    needed = [set(kernel.overloads) for kernel in kernels]
    warm._compile_last()
    for compile_one in warm._longest():
        compile_one()
    assert all(needed) and needed == [set(kernel.overloads) for kernel in kernels]


def test_other_types_need_not_wait_and_share_the_index(tmp_path):
    """Two processes compile one kernel for different types: each is kept, and neither takes the other's file."""
    code = (
        "import numpy as np\nfrom jointglasso.kernels import components\n"
        "i = np.arange(8){}\nprint(components.components(8, i[:2], i[:2]).tolist())"
    )
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    processes = [
        subprocess.Popen([sys.executable, "-c", code.format(step)], env=environment, stdout=subprocess.PIPE)
        for step in ("", "[::2]")
    ]
    assert [process.communicate(timeout=120)[0] for process in processes] == [b"[0, 1, 2, 3, 4, 5, 6, 7]\n"] * 2
    assert len(list(tmp_path.rglob("components.components-*.nbc"))) == 2


def test_code_of_other_sources_never_passes_for_new(tmp_path):
    """numba names code in the index before it is there: a process killed in between must leave nothing to be taken."""
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    stop = "from jointglasso.kernels import jit\nimport numba.core.caching as c\n"
    old = "jit.sources_digest = lambda: 'old'\n"
    die = "import os\nc.IndexDataCacheFile._save_data = lambda *given: os._exit(3)\n"
    wrong = ONE_KERNEL.replace("np.array([1])", "np.array([0])")
    for code, returned in ((stop + old + ONE_KERNEL, 0), (stop + die + wrong, 3)):
        assert subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True).returncode == returned
    assert {path.suffix for path in tmp_path.rglob("components.components-*.nb?")} == {".nbi"}


def test_a_helper_called_from_python_is_an_error():
    with pytest.raises(TypeError, match="not callable"):
        group_state.copy(np.zeros(2), np.zeros(2))


def test_constants_are_no_reason_to_compile_a_helper_again():
    @jit.njit_internal
    def twice(n):
        return 2 * n

    @jit.numba.njit
    def both(n):
        return twice(n) + twice(3)

    assert both(2) == 10 and len(twice.overloads) == 1


def test_arrays_change_hands_among_leaves_or_among_others():
    """A caller that counts references would give back one that a leaf did not count, and a leaf would keep one."""
    functions = [
        (path, node, {getattr(getattr(mark, "func", mark), "id", "") for mark in node.decorator_list})
        for path in Path(jit.__file__).parent.glob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef)
    ]
    numbers = {"None", "bool", "int", "float", "tuple", "GroupPair"}
    give = {
        is_leaf: {
            node.name
            for _, node, marks in functions
            if marks & ({"njit_no_refcount"} if is_leaf else {"njit_internal", "njit"})
            and not names_in(node.returns) <= numbers
        }
        for is_leaf in (False, True)
    }
    assert give[True] == {"graph_of"} and "block_of" in give[False]
    for path, node, marks in functions:
        # A leaf of the same file may have the name of another function elsewhere.
        near = {other.name for place, other, same in functions if place == path and "njit_no_refcount" in same & marks}
        assert not names_in(node) & give["njit_no_refcount" not in marks] - near, node.name


def names_in(tree):
    return {part.id for part in ast.walk(tree) if isinstance(part, ast.Name)} | {
        str(part.value) for part in ast.walk(tree) if isinstance(part, ast.Constant) and part.value is None
    }
