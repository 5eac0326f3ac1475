"""examples/setup.sh: its errors in copies of the tree, and a second run in place."""

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
from commands import write_program

VERSION = f"{sys.version_info.major}.{sys.version_info.minor}"
# The Python of the virtual environment: it has no torch for the script to find.
PYTHON = Path(sys.base_prefix) / "bin" / f"python{VERSION}"
NO_NETWORK = {
    "PIP_CONFIG_FILE": os.devnull,
    "PIP_INDEX_URL": "http://127.0.0.1:9/simple",
    "PIP_EXTRA_INDEX_URL": "",
    "PIP_FIND_LINKS": "",
    "PIP_NO_INDEX": "0",
    "NO_PROXY": "127.0.0.1",
}


@pytest.fixture
def copy(repo, tmp_path):
    """A copy of the files that the set-up reads, without a .venv."""
    for name in ("setup.py", "pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(repo / name, tmp_path)
    for name in ("aiayn_plugin", "examples"):
        ignore = shutil.ignore_patterns("__pycache__", "pictures")
        shutil.copytree(repo / name, tmp_path / name, ignore=ignore)
    return tmp_path


def fake_python(path: Path, version: tuple[int, int, int]) -> Path:
    """Return a Python that reports this version."""
    pretend = f'import sys; sys.version_info = {version} + ("final", 0); exec(sys.argv[2])'
    return write_program(path, f"exec {PYTHON} -c '{pretend}' \"$@\"")


def check_error(result, *parts: str) -> None:
    """Check that the script failed with one line that contains these parts."""
    assert result.returncode == 1, result.stdout + result.stderr
    (line,) = result.stderr.splitlines()
    assert line.startswith("setup.sh: error: ")
    for part in parts:
        assert part in line


@pytest.mark.parametrize(
    ("version", "verdict"),
    [((3, 9, 2), "too old"), ((2, 7, 18), "too old"), ((3, 14, 0), "too new")],
)
def test_an_unsupported_python_is_an_error(copy, run, version, verdict):
    python = fake_python(copy / "python3.x", version)
    result = run("bash", "examples/setup.sh", cwd=copy, env={"PYTHON": str(python)})
    check_error(result, ".".join(map(str, version)), str(python), verdict, "3.10 to 3.13")
    assert not (copy / ".venv").exists()


def test_a_missing_python_is_an_error(copy, run):
    result = run("bash", "examples/setup.sh", cwd=copy, env={"PYTHON": "no-such-python"})
    check_error(result, "no-such-python")


@pytest.mark.skipif(VERSION == "3.12", reason="Python 3.12 has a fairseq wheel")
def test_a_missing_compiler_is_an_error(copy, run):
    tools = copy / "tools"
    tools.mkdir()
    for tool in "bash cat cp cut dirname flock mktemp rm sleep tail uname".split():
        if found := shutil.which(tool):
            (tools / tool).symlink_to(found)
    env = {"PYTHON": str(PYTHON), "PATH": str(tools), "CXX": ""}
    result = run(tools / "bash", "examples/setup.sh", cwd=copy, env=env)
    check_error(result, "C++ compiler", "g++")
    assert not (copy / ".venv").exists()


@pytest.fixture(scope="module")
def quick_python(tmp_path_factory) -> Path:
    """A Python whose `-m venv --clear DIR` quickly copies an existing virtual environment."""
    folder = tmp_path_factory.mktemp("python")
    subprocess.run([PYTHON, "-m", "venv", folder / "venv"], check=True)
    script = f'[ "$2" != venv ] || exec cp -a {folder}/venv "$4"\nexec {PYTHON} "$@"'
    return write_program(folder / "python", script)


def test_a_python_that_differs_from_that_of_venv_is_an_error(copy, run, quick_python):
    subprocess.run([quick_python, "-m", "venv", "--clear", copy / ".venv"], check=True)
    python = fake_python(copy / "python3.x", (3, 12, 99))
    result = run("bash", "examples/setup.sh", cwd=copy, env={"PYTHON": str(python)})
    check_error(result, "different Python", str(python), "remove .venv")


def test_packages_that_setup_did_not_install_are_kept(copy, run):
    package = copy / f".venv/lib/python{VERSION}/site-packages/torch-2.14.1.dist-info"
    package.mkdir(parents=True)
    check_error(run("bash", "examples/setup.sh", cwd=copy), "did not install")
    assert package.exists()


@pytest.mark.parametrize(
    ("version", "wanted", "kept"),
    [
        ("2.9.1+cpu", "", False),
        ("2.10.0+cpu", "", True),
        ("2.10.0+cpu", "2.10+cpu", True),
        ("2.10.0+cpu", "2.11.0", False),
    ],
)
def test_a_supported_torch_is_kept_and_a_missing_network_is_an_error(
    copy, run, quick_python, tmp_path, version, wanted, kept
):
    site = tmp_path / "site"
    (site / f"torch-{version}.dist-info").mkdir(parents=True)
    (site / f"torch-{version}.dist-info" / "METADATA").write_text(f"Version: {version}\n")
    (site / "torch.py").touch()
    env = {**NO_NETWORK, "PYTHON": str(quick_python), "PYTHONPATH": str(site), "TORCH": wanted}
    result = run("bash", "examples/setup.sh", cwd=copy, env=env)
    check_error(result, "cannot reach", "network")
    assert "Connection refused" in (copy / ".venv/setup.log").read_text()
    assert ("keeping the torch of" in result.stdout) == kept
    assert (copy / ".venv/bin/torchrun").exists() == kept


def test_a_torch_that_is_too_old_is_an_error(copy, run):
    result = run("bash", "examples/setup.sh", cwd=copy, env={**NO_NETWORK, "TORCH": "2.9"})
    check_error(result, "TORCH=2.9.0 is too old")


@pytest.mark.alone  # it may reinstall the plugin
@pytest.mark.parametrize("reinstall", [False, pytest.param(True, marks=pytest.mark.long)])
def test_a_second_run_is_quick_and_needs_no_network(repo, run, reinstall):
    if not (repo / ".venv/bin/fairseq-train").exists():
        pytest.skip("needs .venv: bash examples/setup.sh")
    if reinstall:  # without the recorded state, pip checks everything and reinstalls the plugin
        (repo / ".venv/state").unlink(missing_ok=True)
    for limit in (300, 30):  # seconds; 8 and 0.5 on an idle machine
        began = time.monotonic()
        result = run("bash", "examples/setup.sh", cwd=repo, env=NO_NETWORK)
        assert result.returncode == 0, result.stdout + result.stderr
        assert "ready" in result.stdout
        assert time.monotonic() - began < limit
    assert not (repo / "build").exists()
