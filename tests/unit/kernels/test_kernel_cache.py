"""Compiled kernels where nothing may be written: a temporary folder or no cache, a sentence, and an answer."""

import ast
import json
import os
import shutil
import stat
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

from jointglasso import warm
from jointglasso.kernels import column_batches, dense, entries, face, jit, small_columns, support_newton

#: Compiles one small kernel, and says where numba keeps it.
ONE_KERNEL = (
    "import numpy as np\nfrom jointglasso.kernels import components\n"
    "found = components.components(2, np.array([0]), np.array([1]))\n"
    "print(found[0][1], components.components.stats.cache_path)"
)


#: The same with a version of numba that the compiler of internal functions is not known to fit.
NEWER_NUMBA = "import numba\nnumba.version_info = numba.version_info._replace(short=(99, 0))\n" + ONE_KERNEL


def test_with_an_unknown_numba_internal_functions_are_compiled_by_njit(tmp_path):
    check = "\nfrom jointglasso.kernels import jit\nprint(jit.HELPER is jit._OPTIONS)"
    found = run(["-c", NEWER_NUMBA + check], {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}, tmp_path)
    assert found.returncode == 0, found.stderr
    assert found.stdout.split()[0] == "0" and found.stdout.split()[-1] == "True"


@pytest.fixture
def locked(tmp_path):
    """An environment in which no cache folder of the user can be written, and an empty folder for temporary files."""
    (tmp_path / "temporary").mkdir()
    return {
        **{name: value for name, value in os.environ.items() if name != "NUMBA_CACHE_DIR"},
        "HOME": os.devnull,
        "XDG_CACHE_HOME": os.devnull,
        "TMPDIR": str(tmp_path / "temporary"),
    }


def block_temporary_folder(tmp_path):
    """A file with the name of the folder, which stops even the administrator."""
    (tmp_path / "temporary" / f"jointglasso-{os.getuid()}-kernels-{jit.sources_digest()[:16]}").write_text("")


def run(arguments, environment, tmp_path):
    return subprocess.run(
        [sys.executable, *arguments], env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=600
    )


def test_kernels_go_to_a_private_temporary_folder_and_one_warning_says_so(locked, tmp_path):
    found = run(["-c", ONE_KERNEL], locked, tmp_path)
    assert found.returncode == 0, found.stderr
    root, folder = found.stdout.split()
    assert root == "0" and Path(folder).is_relative_to(tmp_path / "temporary") and list(Path(folder).glob("*.nbi"))
    assert stat.S_IMODE(Path(folder).parent.stat().st_mode) == 0o700
    assert found.stderr.count("CacheWarning") == 1 and "set the environment variable NUMBA_CACHE_DIR" in found.stderr


def test_without_any_folder_kernels_are_compiled_all_the_same(locked, tmp_path):
    block_temporary_folder(tmp_path)
    found = run(["-c", ONE_KERNEL], locked, tmp_path)
    assert found.returncode == 0, found.stderr
    assert found.stdout.split() == ["0", "None"]
    assert "compiled in every process anew" in found.stderr


@pytest.mark.parametrize("temporary", [True, False])
def test_doctor_names_the_remedy(locked, tmp_path, temporary):
    if not temporary:
        block_temporary_folder(tmp_path)
    found = run(["-m", "jointglasso", "doctor", "--json"], locked, tmp_path)
    assert found.returncode == 0, found.stderr
    kernels = json.loads(found.stdout)["kernels"]
    assert kernels["ready"] == 0 and not kernels["lasting"] and (kernels["folder"] is not None) == temporary
    assert found.stderr.count("NUMBA_CACHE_DIR") == 1 and "Traceback" not in found.stderr


@pytest.mark.parametrize("variable", ["NUMBA_CACHE_DIR", "XDG_CACHE_HOME"])
def test_the_folder_of_the_user_is_used_without_a_warning(variable, locked, tmp_path):
    if variable == "XDG_CACHE_HOME" and sys.platform != "linux":
        pytest.skip("a convention of Linux")
    found = run(["-c", ONE_KERNEL], {**locked, variable: str(tmp_path / "chosen")}, tmp_path)
    assert found.returncode == 0 and found.stderr == ""
    folder = Path(found.stdout.split()[1]).parent
    assert folder == tmp_path / "chosen" / "jointglasso" / f"kernels-{jit.sources_digest()[:16]}"
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_the_setting_of_numba_stays():
    """Functions of other packages go where numba puts them."""
    before = jit.numba.config.CACHE_DIR
    assert jit.njit(names_in).stats.cache_path is not None and before == jit.numba.config.CACHE_DIR


@pytest.mark.parametrize("trap", ["writable", "link", "owner"])
def test_a_folder_that_others_could_fill_is_not_used(trap, tmp_path, monkeypatch):
    """Compiled code is executed when it is read."""
    folder = tmp_path / "kernels"
    if trap == "writable":
        folder.mkdir()
        folder.chmod(0o777)
    elif trap == "link":
        (tmp_path / "theirs").mkdir(mode=0o700)
        folder.symlink_to(tmp_path / "theirs")
    else:
        folder.mkdir(mode=0o700)
        user = os.getuid()
        monkeypatch.setattr(jit.os, "getuid", lambda: user + 1)
    assert jit._private_folder(tmp_path, "kernels") is None


def test_sources_decide_on_the_folder(tmp_path):
    """numba checks the file of a kernel only, but code of other files is compiled into it."""
    kernels = shutil.copytree(Path(jit.__file__).parent, tmp_path / "kernels")
    digest = jit.sources_digest.__wrapped__
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(jit, "__file__", str(kernels / "jit.py"))
        assert digest() == jit.sources_digest()
        (kernels / "group_pair.py").write_text((kernels / "group_pair.py").read_text() + "\n")
        assert digest() != jit.sources_digest()


def test_damaged_files_are_replaced(tmp_path):
    """Empty, other content, cut, and a pickle of something that is not there."""
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    compiled = run(["-c", ONE_KERNEL], environment, tmp_path)
    assert compiled.returncode == 0, compiled.stderr
    for suffix in ("nbi", "nbc"):
        (file,) = tmp_path.rglob(f"components.components-*.{suffix}")
        valid = file.read_bytes()
        for content in (b"", b"garbage", valid[: len(valid) // 2], b"cjointglasso.kernels.pair_types\nMissing\n."):
            file.write_bytes(content)
            repaired = run(["-c", ONE_KERNEL], environment, tmp_path)
            assert repaired.returncode == 0 and repaired.stderr == "", (content, repaired.stderr)
            assert repaired.stdout == compiled.stdout
            (file,) = tmp_path.rglob(f"components.components-*.{suffix}")
            assert len(file.read_bytes()) > 0.9 * len(valid), content


def test_a_cache_that_cannot_be_written_does_not_stop_a_solve(tmp_path):
    """The disk is full: numba writes files and renames them."""
    block = "import os\ndef replace(*names):\n    raise OSError(28, 'No space left on device')\nos.replace = replace\n"
    done = run(["-c", block + ONE_KERNEL], {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}, tmp_path)
    assert done.returncode == 0 and done.stdout.split()[0] == "0", done.stderr
    assert not list(tmp_path.rglob("*.nbi"))


def test_code_for_other_types_is_not_called(tmp_path):
    """Two processes that compile a kernel for different types can leave the code of one under the types of another."""
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    code = (
        "import numpy as np\nfrom jointglasso.kernels import components\n"
        "i = np.arange(8){}\nprint(components.components(8, i[:2], i[:2])[0].tolist())"
    )
    for step in ("", "[::2]"):
        assert run(["-c", code.format(step)], environment, tmp_path).returncode == 0
    first, second = sorted(tmp_path.rglob("components.components-*.nbc"))
    first.write_bytes(second.read_bytes())
    done = run(["-c", code.format("") + "\nprint(len(components.components.signatures))"], environment, tmp_path)
    assert done.stdout.split("\n")[0] == "[0, 1, 2, 3, 4, 5, 6, 7]"
    assert done.stdout.split("\n")[1] == "2"  # the wrong one, and the one that was compiled


@pytest.mark.parametrize("seconds", [0.0, 60.0])
def test_what_is_compiled_is_announced_if_it_takes_long(seconds, monkeypatch):
    announced, started = [], threading.Event()

    def announce(text):
        announced.append(text)
        started.set()

    monkeypatch.setattr(jit, "_SILENT_SECONDS", seconds)
    monkeypatch.setattr(jit, "announce", announce)
    with jit._announced(column_batches.sweep_columns):
        assert started.wait(0.0 if seconds else 300.0) != bool(seconds)
    name = "column_batches.sweep_columns"
    assert announced == ([] if seconds else [f"Compiling {name}, once on this machine."])


def test_processes_never_wait_for_each_other(tmp_path):
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    processes = [
        subprocess.Popen([sys.executable, "-c", ONE_KERNEL], env=environment, stdout=subprocess.PIPE, text=True)
        for _ in range(3)
    ]
    assert [process.communicate(timeout=600)[0].split()[0] for process in processes] == ["0"] * 3
    assert not [path for path in tmp_path.rglob("*") if path.suffix not in {"", ".nbi", ".nbc"}]


def test_what_is_compiled_ahead_is_what_problems_need():
    """Else it would be compiled for nothing, and again when it is needed."""
    for problem in warm._problems():
        problem()
    kernels = (
        column_batches.sweep_columns, small_columns.ascend_small_groups, entries.apply,
        support_newton.sweep_support, face.multiply_rows,
    )  # fmt: skip
    needed = [set(kernel.overloads) for kernel in kernels]
    warm._compile_last()
    for compile_one in warm._longest():
        compile_one()
    assert all(needed) and needed == [set(kernel.overloads) for kernel in kernels]


def test_a_helper_called_from_python_is_an_error():
    with pytest.raises(KeyError, match="copy is called by kernels only"):
        dense.copy(np.zeros(2), np.zeros(2))


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
    assert not give[True] and "block_of" in give[False]
    for path, node, marks in functions:
        # A leaf of the same file may have the name of another function elsewhere.
        near = {other.name for place, other, same in functions if place == path and "njit_no_refcount" in same & marks}
        assert not names_in(node) & give["njit_no_refcount" not in marks] - near, node.name


def names_in(tree):
    return {part.id for part in ast.walk(tree) if isinstance(part, ast.Name)} | {
        str(part.value) for part in ast.walk(tree) if isinstance(part, ast.Constant) and part.value is None
    }
