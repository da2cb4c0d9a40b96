"""Compiled programs that outlast a process: where they are, and that nothing depends on them."""

import os
import subprocess
import sys

import jax
import pytest

from jaxlin._base import _cache

PROGRAM = """
import sys
import numpy as np
import jaxlin
from jaxlin import lda
print(jaxlin.cache(*sys.argv[1:]))
lda.fit(np.arange(6.0)[:, None] % 4, np.arange(6) // 3)
"""


def run(*arguments, **environment):
    known = {k: v for k, v in os.environ.items() if k != "JAX_COMPILATION_CACHE_DIR"}
    done = subprocess.run(
        [sys.executable, *arguments],
        capture_output=True,
        text=True,
        env={**known, "TF_CPP_MIN_LOG_LEVEL": "3", **environment},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def programs(folder):
    return sorted(str(a.relative_to(folder)) for a in folder.rglob("*-cache"))


def test_a_second_run_finds_the_programs_of_the_first(tmp_path):
    first = run("-c", PROGRAM, XDG_CACHE_HOME=str(tmp_path))
    assert first.startswith(str(tmp_path / "jaxlin"))
    known = programs(tmp_path)
    assert known
    assert run("-c", PROGRAM, XDG_CACHE_HOME=str(tmp_path)) == first
    assert programs(tmp_path) == known


def test_a_folder_of_ones_own(tmp_path):
    own, other = tmp_path / "own" / "deep", tmp_path / "other"
    assert run("-c", PROGRAM, str(own)) == str(own) and programs(own)
    assert run("-c", PROGRAM, JAX_COMPILATION_CACHE_DIR=str(other)) == str(other)
    assert programs(other)


def test_a_folder_that_cannot_be_written_is_no_error(tmp_path):
    (tmp_path / "file").write_text("")
    assert run("-c", PROGRAM, str(tmp_path / "file")) == "None"


def test_the_command_line_keeps_programs_unless_it_is_told_not_to(tmp_path):
    table = tmp_path / "data.csv"
    table.write_text("a,kind\n" + "".join(f"{i % 7},{'xy'[i % 2]}\n" for i in range(20)))
    methods = (
        "from jaxlin import perceptron\n"
        "from jaxlin.__main__ import main\n"
        "from jaxlin._cli import _evaluate\n"
        "_evaluate.METHODS = (_evaluate.Method('perceptron', perceptron.fit),)\n"
        f"main([{str(table)!r}, '--folds', '2', *__import__('sys').argv[1:]])\n"
    )
    for more, kept in (["--no-cache"], False), ([], jax.__version_info__ >= (0, 10)):
        assert "perceptron" in run("-c", methods, *more, XDG_CACHE_HOME=str(tmp_path / "cache"))
        assert bool(programs(tmp_path)) == kept


def test_an_import_keeps_nothing(tmp_path):
    program = PROGRAM.replace("print(jaxlin.cache(*sys.argv[1:]))", "")
    run("-c", program, XDG_CACHE_HOME=str(tmp_path))
    assert not programs(tmp_path)


def test_the_oldest_go_first(tmp_path, monkeypatch):
    monkeypatch.setattr(_cache, "MOST_BYTES", 250)
    for age, name in enumerate(["notes", "c-cache", "a-cache", "b-cache"]):
        (tmp_path / name).write_bytes(bytes(100))
        os.utime(tmp_path / name, (age, age))
    _cache._prune(tmp_path)
    assert sorted(a.name for a in tmp_path.iterdir()) == ["a-cache", "b-cache", "notes"]


@pytest.mark.parametrize("platform", ["linux", "darwin", "win32"])
def test_the_folder_is_the_users(platform, monkeypatch, tmp_path):
    monkeypatch.setattr(sys, "platform", platform)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("LOCALAPPDATA", str(tmp_path))
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    found = _cache._folder()
    assert found.is_relative_to(tmp_path) and found.parent.name == "jaxlin"
