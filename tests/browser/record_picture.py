# SPDX-License-Identifier: Apache-2.0
"""Makes the picture of docs/how-to/jupyter.md: cells in JupyterLab, run in a sandbox.

usage: PYTHONPATH=tests/integration .venv/bin/python tests/browser/record_picture.py

Check the picture, and commit it. test_picture.py fails if it shows something else than a run.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from pathlib import Path

import docs_pictures
import harness
import lab

PICTURE = harness.ROOT / "docs/images/jupyterlab.png"
WINDOW = {"width": 900, "height": 690}
CELLS = [
    "open('/etc/passwd', 'a')",
    "name = input('Which city? ')",
    "import matplotlib.pyplot as plt\n"
    "figure, axes = plt.subplots(figsize=(5, 1.6))\n"
    "axes.plot([12, 14, 19, 17, 13])\n"
    "axes.set_title(name);",
]
ANSWER = "Lisbon"


def main() -> None:
    harness.prepare_process()
    binary = os.environ.get("IPYBOX_BIN", str(harness.ROOT / "build/ipybox"))
    with tempfile.TemporaryDirectory(prefix="ipb-", dir="/var/tmp") as directory:
        place = harness.Place.make(Path(directory) / "x")
        place.environ |= {
            "JUPYTER_DATA_DIR": str(place.home / "jupyter"),
            "JUPYTER_RUNTIME_DIR": str(place.home / "runtime"),
        }
        command = [binary, "kernelspec", "install", "--python", lab.python()]
        subprocess.run(command, env=place.environ, check=True)
        with lab.notebook(place, "ipybox") as notebook:
            path = place.tmp / "picture.png"
            take(notebook, path)
            docs_pictures.keep(path, PICTURE)


def take(notebook: lab.Lab, path: Path) -> None:
    """Runs the cells in the empty notebook, and writes the picture of the page."""
    page = notebook.page
    page.call("Emulation.setDeviceMetricsOverride", deviceScaleFactor=1, mobile=False, **WINDOW)
    page.evaluate("jupyterapp.commands.execute('application:toggle-left-area')")
    for code in CELLS:
        cell = notebook.start(code)
        if "input" in code:
            notebook.answer(cell, ANSWER)
        notebook.wait_for_end(cell)
    notebook.shown(cell, "img")
    page.evaluate(f"{lab.PANEL}.content.deselectAll()")
    page.evaluate(
        f"(() => {{ const c = {lab.PANEL}.content; c.activeCellIndex = 0;"
        " return jupyterapp.commands.execute('notebook:delete-cell'); })()"
    )
    # It is sometimes there, and sometimes not.
    page.evaluate(
        "document.head.insertAdjacentHTML('beforeend',"
        " '<style>.jp-cell-toolbar { display: none !important }</style>')"
    )
    page.screenshot(path)


if __name__ == "__main__":
    main()
