"""Files are replaced as a whole or not at all; missing packages are named."""

from __future__ import annotations

import errno
import os
import stat

import pytest

from jointglasso._files import atomic_text, atomic_write
from jointglasso._optional import require


def test_content_is_replaced(tmp_path):
    path = tmp_path / "a.txt"
    atomic_text(path, "old")
    atomic_text(path, "new \u03bb")
    assert path.read_text(encoding="utf-8") == "new \u03bb"
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.txt"]


def test_failure_keeps_the_old_content(tmp_path):
    path = tmp_path / "a.bin"
    path.write_bytes(b"old")
    with pytest.raises(RuntimeError, match="half way"), atomic_write(path) as file:
        file.write(b"new, but")
        raise RuntimeError("half way")
    assert path.read_bytes() == b"old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.bin"]


def test_full_disk_names_the_path_and_keeps_the_old_content(tmp_path, monkeypatch):
    path = tmp_path / "a.bin"
    path.write_bytes(b"old")

    def full(descriptor):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match=r"a\.bin: the disk is full") as caught, atomic_write(path) as file:
        file.write(b"new")
    assert caught.value.errno == errno.ENOSPC
    assert path.read_bytes() == b"old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.bin"]


def test_missing_folder_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="there is no folder"):
        atomic_text(tmp_path / "nowhere" / "a.txt", "x")


def test_rights_follow_the_umask(tmp_path):
    before = os.umask(0o027)
    try:
        atomic_text(tmp_path / "a.txt", "x")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "a.txt").stat().st_mode) == 0o640


def test_require_names_the_extra():
    assert require("math", "maths").pi > 3
    with pytest.raises(ImportError, match=r"jointglasso\[nowhere\]"):
        require("a_package_that_is_not_there", "nowhere")
