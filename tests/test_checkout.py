"""Commands in tests import this checkout; the installed package works without it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from commands import PLUGIN

#: Imported by every Python at startup; at exit, writes where the plugin was imported from.
RECORDER = """
import atexit, os, sys

@atexit.register
def record():
    if "aiayn_plugin" in sys.modules:
        with open(os.environ["RECORD"], "a") as file:
            print(sys.modules["aiayn_plugin"].__file__, file=file)
"""
TRAIN = ["fairseq-train", "x", "--user-dir", "aiayn_plugin", "--arch", "?"]
COMMANDS = {
    "preprocess": [sys.executable, PLUGIN.parent / "preprocess" / "tatoeba.py", "--help"],
    "a recipe": ["bash", "-c", f"cd {PLUGIN.parent} && aiayn architectures && {' '.join(TRAIN)}"],
}


@pytest.fixture
def recorder(tmp_path) -> dict[str, str]:
    """An environment in which processes record where they import the plugin from."""
    (tmp_path / "sitecustomize.py").write_text(RECORDER)
    return {"PYTHONPATH": str(tmp_path), "RECORD": str(tmp_path / "record")}


@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)
def test_commands_import_the_checkout(run, recorder, tmp_path, command):
    run(*command, cwd=tmp_path, env=recorder)
    assert set(Path(recorder["RECORD"]).read_text().split()) == {str(PLUGIN / "__init__.py")}


def test_forked_commands_import_the_checkout(run, tmp_path):
    probe = tmp_path / "probe"
    probe.mkdir()
    (probe / "__init__.py").write_text("import aiayn_plugin; print(aiayn_plugin.__file__)")
    log = run("fairseq-train", "--user-dir", probe)
    assert log.stdout.split() == [str(PLUGIN / "__init__.py")], log.stderr


def test_the_installed_package_works_in_an_empty_directory(tmp_path):
    """With its data, and under the name that fairseq's --user-dir looks for beside itself."""
    programs = Path(sys.executable).parent
    if not (programs / "aiayn").exists():
        pytest.skip("needs the installed package: bash examples/setup.sh")
    environment = {**os.environ, "PYTHONPATH": ""}

    def installed(*command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [programs / command[0], *command[1:]],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
        )

    place = "import aiayn_plugin; print(aiayn_plugin.__path__[0])"
    package = Path(installed("python", "-c", place).stdout.strip())
    assert package != PLUGIN
    files = [
        {path.relative_to(root) for path in root.rglob("*.*") if path.suffix != ".pyc"}
        for root in (PLUGIN, package)
    ]
    assert files[0] == files[1]
    done = installed("aiayn", "architectures")
    assert done.returncode == 0 and "aiayn_base" in done.stdout, done.stderr
    done = installed("fairseq-train", "--user-dir", "aiayn_plugin", "--help")
    assert done.returncode == 0 and "aiayn_base" in done.stdout, done.stderr
