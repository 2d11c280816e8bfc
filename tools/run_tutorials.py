"""Execute the tutorials, each in an empty folder, and store their outputs in them.

Usage: python tools/run_tutorials.py, after a change that affects their outputs. Times, versions and progress
lines of ended runs are left out.
"""

import sys
import tempfile
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient
from traitlets.config import Config

TUTORIALS = Path(__file__).parents[1] / "docs" / "tutorials"


def executed(path: Path, folder: str) -> Any:
    """Return a notebook with its outputs, executed in `folder`; raise if a cell fails."""
    notebook = nbformat.read(path, as_version=4)
    # Over TCP the kernel would warn of listeners; both sides find the sockets by their full path.
    own = Config({"KernelManager": {"transport": "ipc", "ip": f"{folder}/.kernel"}})
    client = NotebookClient(notebook, timeout=1200, startup_timeout=300, record_timing=False, config=own)
    client.execute(cwd=folder)
    for cell in (cell for cell in notebook.cells if cell.cell_type == "code"):
        cell.outputs = [o for o in cell.outputs if o.get("data", {}).get("text/html") != ""]
    notebook.metadata = {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
    }
    return notebook


def main() -> None:
    """Execute and rewrite every tutorial."""
    for path in sorted(TUTORIALS.glob("*.ipynb")):
        with tempfile.TemporaryDirectory() as folder:
            notebook = executed(path, folder)
        nbformat.validate(notebook)
        path.write_text(nbformat.writes(notebook) + "\n")
        print(path.name, file=sys.stderr)


if __name__ == "__main__":
    main()
