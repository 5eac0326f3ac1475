"""examples/paper.ipynb: its code and outputs as committed, and an execution."""

import ast
import importlib
import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from notebooks import PAPER, ROOT, execute


@pytest.fixture(scope="module")
def notebook() -> dict[str, Any]:
    return json.loads(PAPER.read_text(encoding="utf-8"))


def code_cells(notebook: dict[str, Any]) -> list[dict[str, Any]]:
    return [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]


def outputs(notebook: dict[str, Any]) -> Iterator[dict[str, Any]]:
    return (output for cell in code_cells(notebook) for output in cell["outputs"])


def test_the_outputs_are_those_of_one_run(notebook):
    """Small, and without errors, warnings and local paths."""
    cells = code_cells(notebook)
    assert [cell["execution_count"] for cell in cells] == list(range(1, len(cells) + 1))
    kinds = {(output["output_type"], output.get("name")) for output in outputs(notebook)}
    assert kinds == {("stream", "stdout"), ("display_data", None), ("execute_result", None)}
    assert sum("image/svg+xml" in output.get("data", {}) for output in outputs(notebook)) >= 10
    text = json.dumps([cell["outputs"] for cell in cells])
    assert not re.search(r"/(home|root|tmp|work|usr)/|[Ww]arning|Traceback", text)
    assert PAPER.stat().st_size <= 500_000


def test_the_code_imports_existing_names(notebook):
    imported = []
    for cell in code_cells(notebook):
        lines = "".join(cell["source"]).splitlines()
        if lines[0] != "%%bash":
            code = "\n".join(line for line in lines if not line.startswith("%"))
            imported += [n for n in ast.walk(ast.parse(code)) if isinstance(n, ast.ImportFrom)]
    names = [
        (node.module, alias.name)
        for node in imported
        if node.module.startswith("aiayn_plugin")
        for alias in node.names
    ]
    assert len(names) > 30
    for module, name in names:
        assert hasattr(importlib.import_module(module), name), f"{module} has no {name}"


def test_the_displayed_code_is_that_of_the_plugin(notebook):
    """If it differs, execute the notebook again: python tests/notebooks.py."""
    texts = ["".join(o.get("data", {}).get("text/markdown", "")) for o in outputs(notebook)]
    blocks = [re.fullmatch(r"`(.+)`\n\n```python\n(.+)```", text, re.S) for text in texts if text]
    assert len(blocks) >= 10
    for block in blocks:
        file, code = block.groups()
        source = (ROOT / file).read_text(encoding="utf-8")
        lines, shown = ([x.strip() for x in y.splitlines()] for y in (source, code))
        assert "\n".join(shown) in "\n".join(lines), f"{file} no longer contains {shown[0]}"


def test_its_links_are_files(notebook):
    text = "".join("".join(c["source"]) for c in notebook["cells"] if c["cell_type"] == "markdown")
    links = re.findall(r"\]\((?!https:)([^)#]+)", text)
    assert len(links) > 20
    assert [link for link in links if not (PAPER.parent / link).exists()] == []


@pytest.mark.long
def test_no_cell_fails(notebook, tmp_path):
    """Its assertions compare the plugin with the paper."""
    pytest.importorskip("nbclient", reason="needs nbclient: pip install nbclient ipykernel")
    executed = execute(tmp_path)
    assert not list(tmp_path.iterdir())
    for before, after in zip(notebook["cells"], executed.cells, strict=True):
        kinds = [
            [(output["output_type"], output.get("name")) for output in cell.get("outputs", [])]
            for cell in (before, after)
        ]
        assert kinds[0] == kinds[1], after.source
