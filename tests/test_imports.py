"""Packages import only downwards, and commands import only the libraries they need."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "aiayn_plugin"
#: The packages and modules of aiayn_plugin, bottom up: each may import those before it.
LAYERS = (
    "errors atomic paper text kernels model training parsing corpus search checkpoints "
    "fairseq_plugin inference html_page plots attention_page report service benchmarks cli"
).split()
#: Libraries that only these packages may import.
ONLY = {
    "fairseq": {"fairseq_plugin", "benchmarks"},
    "torch": {*LAYERS} - {"errors", "atomic", "paper", "text", "corpus"},
}


def imports(path: Path) -> set[tuple[str, ...]]:
    """Return the absolute names of all modules that a file imports, at any level of nesting."""
    package = path.relative_to(ROOT).with_suffix("").parts[:-1]
    modules: set[tuple[str, ...]] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            modules |= {tuple(alias.name.split(".")) for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else ()
            module = (*above, *(node.module or "").split(".")) if node.module else above
            modules |= {(*module, alias.name) for alias in node.names}
    return modules


def test_imports_run_downwards():
    wrong = []
    for path in PACKAGE.rglob("*.py"):
        own = path.relative_to(PACKAGE).with_suffix("").parts[0]
        for module in imports(path):
            upwards = (
                (module[0], own) != ("aiayn_plugin", "__init__")
                and module[0] == "aiayn_plugin"
                and module[1] != own
                and LAYERS.index(module[1]) >= LAYERS.index(own)
            )
            if upwards or own not in ONLY.get(module[0], {own}):
                wrong.append(f"{path.relative_to(ROOT)} imports {'.'.join(module)}")
    assert not wrong


def run_python(program: str) -> str:
    """Return the output of a program in a new process that imports the checkout."""
    return subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout


@pytest.mark.parametrize(
    "commands, loaded",
    [
        ("--help architectures configs score prepare prepare-trees wmt14", set()),
        ("average bundle translate parse serve attention export", {"torch"}),
    ],
)
def test_a_command_loads_only_what_it_needs(commands, loaded):
    """Importing torch takes seconds, and fairseq twice as long."""
    program = (
        f"import sys, aiayn_plugin.cli as c\nfor name in {commands.split()}:\n"
        "  try: c.main([name, '--help'])\n"
        "  except SystemExit: print('after', name, {'torch', 'fairseq'} & {*sys.modules})"
    )
    found = [line for line in run_python(program).splitlines() if line.startswith("after ")]
    assert found == [f"after {name} {loaded}" for name in commands.split()]


def test_the_plugin_can_be_imported_before_fairseq():
    """A program keeps its excepthook."""
    program = """
import sys, aiayn_plugin.text.lines
hook = sys.excepthook
import fairseq, aiayn_plugin.fairseq_plugin
from fairseq.models import ARCH_MODEL_REGISTRY as names
print("aiayn_base" in names, sys.excepthook is hook)
"""
    assert run_python(program).splitlines()[-1] == "True True"
