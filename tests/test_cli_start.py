"""The first second of the command line: help, usage errors and completion need neither torch nor data."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import windlass as package
from command import windlass
from windlass.commands import demo, shared
from windlass.core.program import program
from windlass.demo.names import SCRIPTS
from windlass.tasks import TASKS

HEAVY = ("torch", "numpy", "matplotlib", "tokenizers", "sacrebleu", "rich", "yaml")  # typer itself imports pydantic
LIGHT = [
    ["--help"],
    ["-h"],
    ["--version"],
    ["train", "--help"],
    ["predict", "-h"],
    ["demo", "--help"],
    ["trian"],
    ["train", "--taks", "x"],
    ["predict"],
    ["--show-completion", "bash"],
]


@pytest.mark.parametrize("arguments", LIGHT, ids=" ".join)
def test_help_and_usage_errors_do_not_import_torch(arguments):
    code = (
        "import sys\n"
        "from windlass.cli import main\n"
        "try:\n"
        "    main()\n"
        "finally:\n"
        f"    print('heavy:', [name for name in {HEAVY} if name in sys.modules])\n"
    )
    source = str(Path(__file__).parent.parent / "src")
    ran = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        env=os.environ | {"PYTHONPATH": source},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.stdout.endswith("heavy: []\n"), ran.stdout + ran.stderr


def test_importing_the_package_imports_nothing_until_a_name_is_used():
    code = "import sys, windlass; assert 'torch' not in sys.modules; windlass.fit; assert 'torch' in sys.modules"
    subprocess.run([sys.executable, "-c", code], env=os.environ | {"OMP_NUM_THREADS": "1"}, check=True)


def test_every_public_name_is_there():
    for name in package.__all__:
        assert getattr(package, name) is not None
        assert name in dir(package)
    with pytest.raises(AttributeError, match="no attribute 'fitt'"):
        package.fitt  # noqa: B018


def test_the_help_texts_name_every_task_and_every_script():
    assert sorted(TASKS) == shared.TASK_NAMES
    assert list(SCRIPTS) == demo.SCRIPTS


@pytest.mark.parametrize("command", ["", "train", "evaluate", "recipes"])
def test_h_is_help(command):
    arguments = [command] if command else []
    short, long = (windlass(*arguments, flag) for flag in ("-h", "--help"))
    assert short.code == long.code == 0
    assert short.out == long.out
    assert "-h, --help" in short.out


def test_a_mistyped_command_and_option_are_corrected():
    assert "Did you mean 'train'?" in windlass("trian").err
    assert "--task" in windlass("train", "--taks", "x").err


def test_hints_show_the_program_as_it_was_typed(monkeypatch, tmp_path):
    (tmp_path / "bin").mkdir()
    script = tmp_path / "bin" / "windlass"
    script.write_text("#!/bin/sh\n")
    script.chmod(0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["bin/windlass"])
    monkeypatch.setenv("PATH", "/nowhere")
    assert program() == "bin/windlass"
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    assert program() == "windlass"
