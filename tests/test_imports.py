"""The house: which package may import which, and how large its parts may be."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "aiayn_plugin"
TEXT = {"errors", "text"}
MODEL = {"errors", "paper", "model"}
BELOW = {*TEXT, *MODEL, "training", "search", "checkpoints", "boundary"}
#: What each package, or module beside the packages, may import of the others.
MAY_IMPORT = {
    "errors": set(),
    "paper": {"errors"},
    "text": {"errors"},
    "parsing": {"errors", "text"},
    "model": {"errors", "paper"},
    "training": {"errors", "model"},
    "search": {"errors", "model"},
    "checkpoints": {"errors", "paper", "text", "model"},
    "boundary": BELOW - {"boundary"},
    "searcher": BELOW - {"training"},
    "translator": {"text", "searcher"},
    "parser": {"parsing", "searcher"},
    "view": {*BELOW, "parsing", "translator"},
    "service": {"errors", "translator", "view"},
    "benchmarks": {*BELOW, "view"},
    "cli": {*BELOW, "parsing", "searcher", "translator", "parser", "view", "service", "benchmarks"},
    "__init__": {"boundary"},
}
#: Libraries that only these packages may import.
ONLY = {
    "fairseq": {"boundary", "benchmarks"},
    "torch": set(MAY_IMPORT) - {"errors", "paper", "text", "parsing", "__init__"},
}


def imports(path: Path) -> set[tuple[str, ...]]:
    """Return the modules that a file imports, wherever it does, as absolute paths of names."""
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


FILES = sorted(PACKAGE.rglob("*.py"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_run_downwards(path):
    own = path.relative_to(PACKAGE).with_suffix("").parts[0]
    for module in imports(path):
        if module[0] == "aiayn_plugin" and module[1] != own:
            assert module[1] in MAY_IMPORT[own], f"{own} imports {'.'.join(module)}"
        assert own in ONLY.get(module[0], {own}), f"{own} imports {module[0]}"


def run_python(program: str) -> str:
    """Return what a program prints in a new process, in which the checkout is the plugin."""
    return subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=True,
                          capture_output=True, text=True).stdout  # fmt: skip


def test_the_text_side_loads_neither_torch_nor_fairseq():
    modules = [".".join(path.relative_to(ROOT).with_suffix("").parts)
               for path in sorted((PACKAGE / "text").glob("*.py"))]  # fmt: skip
    program = f"import sys, {', '.join(modules)}; print({{'torch', 'fairseq'}} & {{*sys.modules}})"
    assert run_python(program).strip() == "set()"


@pytest.mark.parametrize("command, loaded", [
    ("architectures", set()), ("score", set()), ("average", {"torch"}), ("bundle", {"torch"}),
    ("translate", {"torch"}), ("parse", {"torch"}), ("serve", {"torch"}), ("attention", {"torch"}),
    ("export", {"torch"}),
])  # fmt: skip
def test_a_command_loads_only_what_it_needs(command, loaded):
    """To import torch takes seconds, and fairseq twice as many."""
    program = (f"import sys, aiayn_plugin.cli as c\ntry: c.main(['{command}', '--help'])\n"
               "except SystemExit: print({'torch', 'fairseq'} & {*sys.modules})")  # fmt: skip
    assert run_python(program).splitlines()[-1] == str(loaded)


def test_the_plugin_registers_with_fairseq_in_either_order():
    found = "from fairseq.models import ARCH_MODEL_REGISTRY; print('aiayn_base' in "\
            "ARCH_MODEL_REGISTRY)"
    for program in ("import fairseq.models, aiayn_plugin",
                    "import aiayn_plugin.text.lines, aiayn_plugin.boundary"):
        assert run_python(f"{program}; {found}").splitlines()[-1] == "True"


@pytest.mark.parametrize("folder", ["aiayn_plugin", "preprocess", "tests"])
def test_files_and_functions_stay_small(folder):
    for path in sorted((ROOT / folder).rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        assert text.count("\n") <= 300, path
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef):
                assert node.end_lineno - node.lineno < 50, f"{path}: {node.name}"
