"""Execute examples/paper.ipynb and keep its outputs: python tests/notebooks.py."""

import os
import tempfile
from pathlib import Path
from typing import Any

#: The checkout.
ROOT = Path(__file__).resolve().parent.parent
PAPER = ROOT / "examples" / "paper.ipynb"


def execute(folder: Path) -> Any:
    """Return the notebook, executed in a folder, with this checkout's plugin.

    Raises nbclient's CellExecutionError if a cell fails.
    """
    import nbformat
    from nbclient import NotebookClient

    client = NotebookClient(
        nbformat.read(PAPER, as_version=4),
        timeout=1800,
        kernel_name="python3",
        record_timing=False,  # the metadata would change with every run
        coalesce_streams=True,
        resources={"metadata": {"path": str(folder)}},
    )
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    return client.execute(env={**os.environ, "PYTHONPATH": path})


if __name__ == "__main__":
    import nbformat

    with tempfile.TemporaryDirectory() as folder:
        nbformat.write(execute(Path(folder)), PAPER)
