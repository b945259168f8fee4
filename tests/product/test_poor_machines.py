"""Machines that lack something: each run gives the same bits, or ends in one sentence."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest

linux = pytest.mark.skipif(sys.platform != "linux", reason="limits and affinities of Linux")

#: What a script does before the package is imported.
LACKS = {
    "all cores but one": "import os; os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})",
    "most of the address space": (
        "import resource; resource.setrlimit(resource.RLIMIT_AS, (2**30, 2**30)); "
        "import os; os.environ['OMP_NUM_THREADS'] = os.environ['OPENBLAS_NUM_THREADS'] = '1'"
    ),
    # multiprocessing makes its semaphores there
    "/dev/shm": (
        "import _multiprocessing\n"
        "class SemLock:\n"
        "    SEM_VALUE_MAX = 1\n"
        "    def __init__(self, *arguments):\n        raise OSError(38, 'Function not implemented')\n"
        "_multiprocessing.SemLock = SemLock"
    ),
    # a limit of the user or of a container
    "threads": (
        "import threading\n"
        'def start(self):\n    raise RuntimeError("can\'t start new thread")\n'
        "threading.Thread.start = start"
    ),
    "modules and functions of Unix": (
        "import os, sys\n"
        "for name in ('fcntl', 'resource', 'pwd', 'grp'):\n    sys.modules[name] = None\n"
        "for name in ('sched_yield', 'sched_getaffinity', 'sched_setaffinity', 'fork', 'register_at_fork', 'getuid'):\n"
        "    delattr(os, name)"
    ),
}

USUAL = "modules and functions of Unix"
RARE = ("all cores but one", "most of the address space", "/dev/shm", "threads")

WORK = """
import hashlib, warnings
import numpy as np
import jointglasso as jgl
rng = np.random.default_rng(0)
modules = np.repeat(rng.standard_normal((2, 40, 3)), 10, axis=2)
source = jgl.SampleCovariance(list(modules + rng.standard_normal((2, 40, 30))), scale="correlation")
found = hashlib.sha256()
for penalty in ("group", "fused"):
    solution = jgl.solve(source, 0.3, 0.1, penalty=penalty, n_jobs=-1)
    assert solution.status.converged
    for Theta in solution.precision:
        found.update(Theta.data.tobytes() + Theta.indices.tobytes())
print(found.hexdigest())
"""


def run(code, **environment):
    command = [sys.executable, "-W", "error::RuntimeWarning", "-c", code]
    return subprocess.run(
        command, env={**os.environ, **environment}, capture_output=True, text=True, timeout=1000, check=False
    )


@pytest.fixture(scope="module")
def expected():
    done = run(WORK)
    assert done.returncode == 0, done.stderr
    return done.stdout


@linux
@pytest.mark.parametrize("lacking", [USUAL, *(pytest.param(name, marks=pytest.mark.slow) for name in RARE)])
def test_a_solve_gives_the_same_bits_without(lacking, expected):
    done = run(LACKS[lacking] + "\n" + WORK)
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout == expected
    assert done.stderr == ""


@linux
@pytest.mark.slow
def test_a_home_that_cannot_be_written(expected, tmp_path):
    """Kernels are compiled into a temporary folder, which is said once."""
    (tmp_path / "home").write_text("")  # not a folder: nothing can be made in it, by root neither
    (tmp_path / "tmp").mkdir()
    home = {
        "HOME": str(tmp_path / "home"),
        "XDG_CACHE_HOME": "",
        "NUMBA_CACHE_DIR": "",
        "TMPDIR": str(tmp_path / "tmp"),
    }
    done = run(WORK, **home)
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout == expected
    assert done.stderr.count("which may not last") == 1 and "Traceback" not in done.stderr


@linux
@pytest.mark.slow
def test_a_process_stopped_while_it_compiles_holds_nobody_up(expected, tmp_path):
    """Kernels in its cache folder are written without locks."""
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    with subprocess.Popen([sys.executable, "-c", WORK], env=environment, stdout=subprocess.PIPE, text=True) as stopped:
        while stopped.poll() is None and len(list(tmp_path.rglob("*.nbc"))) < 2:
            time.sleep(0.01)
        stopped.send_signal(signal.SIGSTOP)
        try:
            done = run(WORK, NUMBA_CACHE_DIR=str(tmp_path))
        finally:
            stopped.send_signal(signal.SIGCONT)
        assert (done.returncode, done.stdout) == (0, expected), done.stderr[-2000:]
        assert stopped.communicate(timeout=1000)[0] == expected
    assert run(WORK, NUMBA_CACHE_DIR=str(tmp_path)).stdout == expected


@linux
@pytest.mark.slow
def test_the_demonstration_on_one_core(tmp_path):
    """The command of the README."""
    code = LACKS["all cores but one"] + "\nfrom jointglasso.cli import main\nmain(['demo'])"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=1000, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert list(tmp_path.rglob("report.html"))


#: What ends the process where memory is short: exceptions of Python and NumPy, and messages of compiled libraries.
EXCEPTIONS = ("MemoryError", "NotEnoughMemory", "ImportError", "OSError", "SystemError", "can't start new thread")
LIBRARIES = ("OpenBLAS error", "LLVM ERROR")


@linux
@pytest.mark.slow
@pytest.mark.parametrize("megabytes", [360, 480, 512])
def test_too_little_address_space_is_one_sentence_or_the_result(megabytes, expected):
    """So little that libraries may not even be loaded, or abort the process, which no Python code can prevent.

    What Python can say is a sentence about memory, and a run that ends well has the right result.
    """
    limit = megabytes * 2**20
    code = LACKS["most of the address space"].replace("2**30, 2**30", f"{limit}, {limit}")
    done = run(code + "\n" + WORK)
    if done.returncode == 0:
        assert done.stdout == expected
    elif done.returncode not in (-signal.SIGABRT, -signal.SIGSEGV):  # LLVM and the C++ library end processes so
        last = (done.stderr.strip().splitlines() or [""])[-1]
        assert done.returncode == 1, done.stderr[-2000:]
        assert any(word in last for word in (*EXCEPTIONS, *LIBRARIES)), done.stderr[-2000:]
