# SPDX-License-Identifier: Apache-2.0
"""A notebook in JupyterLab, used in a browser.

Cells are written and run with the keyboard, and buttons are clicked. What a cell put out is read
from JupyterLab's own objects (`jupyterapp`), and what is shown from the page. A cell is known by
its position in the notebook.
"""

from __future__ import annotations

import contextlib
import json
import signal
import time
from collections.abc import Iterator
from typing import Any

import harness
from chromium import CONTROL, Page, PageError, browser
from notebooks import make_notebook
from server_process import START_SECONDS, free_port, is_listening, running

# How long JupyterLab may take to be there, with a kernel; a cell to end; the page to show something
# that is ready.
LOAD_SECONDS = 120.0
CELL_SECONDS = 60.0
SHOW_SECONDS = 30.0
END_SECONDS = 30.0

TOKEN = "browser"
NOTEBOOK = "notebook.ipynb"
WIDGET = "application/vnd.jupyter.widget-view+json"

# No questions about news, and all cells are in the page.
SETTINGS = {
    "@jupyterlab/apputils-extension/notification": {"fetchNews": "false", "checkForUpdates": False},
    "@jupyterlab/notebook-extension/tracker": {"windowingMode": "none"},
}
# Each dialog that JupyterLab opens is noted, also one that closes at once.
NOTE_DIALOGS = """(() => {
  window.dialogs = [];
  new MutationObserver((changes) => {
    for (const change of changes) {
      for (const node of change.addedNodes) {
        if (node.classList?.contains("jp-Dialog")) window.dialogs.push(node.innerText);
      }
    }
  }).observe(document.body, {childList: true});
})()"""
PANEL = "jupyterapp.shell.currentWidget"


def python() -> str:
    """The Python of JupyterLab, which has what cells import, too."""
    return str(harness.existing(harness.CACHE / "jupyterlab/bin/python"))


@contextlib.contextmanager
def server(place: harness.Place, *arguments: str) -> Iterator[str]:
    """Yields the URL of a JupyterLab, with its token."""
    settings = place.home / "settings"
    for name, values in SETTINGS.items():
        path = settings / f"{name}.jupyterlab-settings"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(values))
    port = free_port()
    command = [python(), "-m", "jupyterlab", "--allow-root", "--no-browser"]
    command += ["--ServerApp.ip=127.0.0.1", f"--ServerApp.port={port}"]
    command += ["--ServerApp.port_retries=0", f"--IdentityProvider.token={TOKEN}"]
    command += [f"--ServerApp.root_dir={place.workspace}", "--LabApp.expose_app_in_browser=True"]
    command += [f"--LabApp.user_settings_dir={settings}", *arguments]
    with running(
        command, place.environ, "is running at", place.workspace, signal.SIGTERM, END_SECONDS
    ):
        deadline = time.monotonic() + START_SECONDS
        while not is_listening(port):  # it says so before it listens
            assert time.monotonic() < deadline, "the server does not listen"
            time.sleep(0.01)
        yield f"http://127.0.0.1:{port}/lab/tree/{NOTEBOOK}?token={TOKEN}"


@contextlib.contextmanager
def notebook(place: harness.Place, kernel: str, *arguments: str) -> Iterator[Lab]:
    """A new notebook, open in a browser, with a kernel of this kernelspec."""
    nb = make_notebook([])
    nb["metadata"]["kernelspec"] = {"name": kernel, "display_name": kernel, "language": "python"}
    (place.workspace / NOTEBOOK).write_text(json.dumps(nb))
    with server(place, *arguments) as url, browser(place.home / "chromium", place.environ) as page:
        yield Lab(page, url)


class Lab:
    def __init__(self, page: Page, url: str):
        self.page = page
        page.open(url)
        page.wait(f"{PANEL}.content.widgets", "the notebook", LOAD_SECONDS)
        page.evaluate(NOTE_DIALOGS)
        self.wait_until_idle()

    def wait_until_idle(self) -> None:
        self.page.wait(
            f"{PANEL}.sessionContext.session.kernel.status === 'idle'",
            "an idle kernel",
            LOAD_SECONDS,
        )

    @property
    def kernel_name(self) -> str:
        """As JupyterLab shows it."""
        return self.page.evaluate(f"{PANEL}.sessionContext.kernelDisplayName")

    def dialogs(self) -> list[str]:
        """The texts of the dialogs since the last call."""
        return self.page.evaluate("window.dialogs.splice(0)")

    def click(self, selector: str, text: str = "") -> None:
        """Clicks the element of this kind with this text, when there is one."""
        element = (
            f"[...document.querySelectorAll({json.dumps(selector)})].find((element) =>"
            f" element.offsetParent && element.innerText.includes({json.dumps(text)}))"
        )
        self.page.wait(f"Boolean({element})", f"{selector} with {text!r}", SHOW_SECONDS)
        self.page.click(element)

    def write(self, code: str) -> int:
        """Makes a cell at the end with this code, and keeps the focus in it."""
        code = code.strip()
        cell = self.page.evaluate(
            f"""(async () => {{
              const {{commands}} = jupyterapp, content = {PANEL}.content;
              content.activeCellIndex = content.widgets.length - 1;
              await commands.execute("notebook:insert-cell-below");
              await commands.execute("notebook:change-cell-to-code");
              await commands.execute("notebook:enter-edit-mode");
              return content.activeCellIndex;
            }})()"""
        )
        self.page.wait(
            f"{PANEL}.content.widgets[{cell}].node.contains(document.activeElement) &&"
            " document.activeElement.classList.contains('cm-content')",
            "the focus in the new cell",
            SHOW_SECONDS,
        )
        if "\n" in code:  # the editor would indent typed lines
            self.page.evaluate(
                f"{PANEL}.content.widgets[{cell}].model.sharedModel.setSource({json.dumps(code)})"
            )
        else:
            self.page.type(code)
        self.page.wait(f"{self.source_of(cell)} === {json.dumps(code)}", "the code", SHOW_SECONDS)
        return cell

    def recover(self) -> None:
        """After a test that failed: no dialog is open and no cell runs."""
        self.page.evaluate(
            """(async () => {
              document.querySelectorAll(".jp-Dialog").forEach((dialog) => dialog.remove());
              await jupyterapp.shell.currentWidget.sessionContext.session.kernel.restart();
            })()"""
        )
        self.wait_until_idle()

    def source_of(self, cell: int) -> str:
        """In JavaScript."""
        return f"{PANEL}.content.widgets[{cell}].model.sharedModel.getSource()"

    def start(self, code: str) -> int:
        """Writes a cell and runs it, without waiting for its end."""
        cell = self.write(code)
        self.page.press("Enter", CONTROL)
        return cell

    def wait_for_end(self, cell: int) -> None:
        self.page.wait(
            f"/\\[\\d+\\]/.test({PANEL}.content.widgets[{cell}].promptNode.innerText)",
            f"the end of cell {cell}; it has put out {self.outputs(cell)}",
            CELL_SECONDS,
        )

    def run(self, code: str) -> int:
        """Writes a cell, runs it and waits for its end."""
        cell = self.start(code)
        self.wait_for_end(cell)
        return cell

    def outputs(self, cell: int) -> list[dict[str, Any]]:
        """In nbformat's form."""
        return self.page.evaluate(f"{PANEL}.content.widgets[{cell}].model.outputs.toJSON()")

    def stream(self, cell: int) -> str:
        """The text that it has printed."""
        return "".join(
            text
            for output in self.outputs(cell)
            if output["output_type"] == "stream"
            for text in output["text"]
        )

    def error(self, cell: int) -> str | None:
        for output in self.outputs(cell):
            if output["output_type"] == "error":
                return output["ename"]
        return None

    def value(self, code: str) -> Any:
        """The value of an expression, in a cell of its own. It must be JSON."""
        cell = self.run(f"import json; print(json.dumps({code}))")
        assert self.error(cell) is None, self.outputs(cell)
        return json.loads(self.stream(cell))

    def area(self, cell: int) -> str:
        """The part of the page that shows the outputs of a cell, in JavaScript."""
        return f"{PANEL}.content.widgets[{cell}].outputArea.node"

    def element(self, cell: int, selector: str) -> str:
        """An element in the outputs of a cell, in JavaScript."""
        return f"{self.area(cell)}.querySelector({json.dumps(selector)})"

    def shown(self, cell: int, selector: str = "", limit_s: float = SHOW_SECONDS) -> str:
        """Waits for an element in the outputs of a cell. Returns its text, or "(no text)"."""
        element = self.element(cell, selector) if selector else self.area(cell)
        return self.page.wait(
            f"(({element}).innerText.trim() || '(no text)')",
            f"{selector} below cell {cell}; it has put out {self.outputs(cell)}",
            limit_s,
        )

    def wait_for_text(self, cell: int, text: str) -> None:
        """Waits until the outputs of a cell show this text."""
        self.page.wait(
            f"{self.area(cell)}.innerText.includes({json.dumps(text)})",
            f"{text!r} below cell {cell}; it has put out {self.outputs(cell)}",
            SHOW_SECONDS,
        )

    def wait_for(self, expression: str, what: str) -> Any:
        return self.page.wait(expression, what, SHOW_SECONDS)

    def answer(self, cell: int, text: str) -> str:
        """Types into the input box of a cell. Returns the type of the box."""
        box = self.element(cell, "input.jp-Stdin-input")
        self.wait_for(f"document.activeElement === {box}", "an input box with the focus")
        kind = self.page.evaluate(f"{box}.type")
        self.page.type(text)
        self.page.evaluate(f"{box}.dataset.answered = 'yes'")
        self.page.press("Enter")
        self.wait_for("!document.querySelector('[data-answered]')", "the end of the input box")
        return kind

    def widget(self, code: str, selector: str) -> int:
        """Runs a cell that shows a widget, and waits for this element of it."""
        cell = self.run(code)
        shown = [output.get("data", {}) for output in self.outputs(cell)]
        if not any(WIDGET in data for data in shown):  # nothing to wait for
            raise PageError(f"no widget: {self.outputs(cell)}")
        self.shown(cell, selector)
        return cell

    def wait_for_colours(self, element: str, n_colours: int) -> None:
        """Waits until an image or a canvas has at least so many colours."""
        self.wait_for(
            f"""((source) => {{
              if (source.complete === false) return false;
              const canvas = document.createElement("canvas");
              canvas.width = source.naturalWidth || source.width;
              canvas.height = source.naturalHeight || source.height;
              const context = canvas.getContext("2d");
              context.drawImage(source, 0, 0);
              const {{data}} = context.getImageData(0, 0, canvas.width, canvas.height);
              return new Set(new Uint32Array(data.buffer)).size >= {n_colours};
            }})({element})""",
            f"{n_colours} colours of {element}",
        )
