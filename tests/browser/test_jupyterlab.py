# SPDX-License-Identifier: Apache-2.0
"""What people do in JupyterLab, in a real browser, with kernels of ipybox.

Each test adds its own cells to the notebook of its class, so it can run alone.
"""

from __future__ import annotations

import pytest
from chromium import SHIFT
from lab import Lab

LIVE_STREAM = """
import time
for i in range(3):
    print('line', i, flush=True)
input('go on? ')
print('the end')
"""
PLOT = """
import matplotlib.pyplot as plt, numpy as np
plt.imshow(np.arange(64).reshape(8, 8))
plt.show()
"""
TABLE = """
import pandas as pd
pd.DataFrame({'city': ['Oslo', 'Rome'], 'people': [709000, 2748000]})
"""
LATEX = r"""
from IPython.display import Math
Math(r'\frac{\alpha}{\sqrt{2}}')
"""
FOREVER = """
import time
print('running', flush=True)
while True:
    time.sleep(0.1)
"""
AWAITS = """
import asyncio
print('waiting', flush=True)
await asyncio.sleep(3600)
"""
DISPLAY_UPDATE = """
from IPython.display import HTML, clear_output, display
print('gone')
clear_output(wait=True)
handle = display(HTML('<b>first</b>'), display_id=True)
"""
THREAD = """
import threading
ready, done = threading.Event(), threading.Event()

def work():
    ready.wait()
    print('from the thread', flush=True)
    done.set()

threading.Thread(target=work).start()
print('started')
"""
THREAD_DISPLAY = """
import threading
from IPython.display import HTML, display
ready, done = threading.Event(), threading.Event()
handle = display(HTML('<i>zero</i>'), display_id=True)

def work():
    ready.wait()
    display(HTML('<i>one</i>'))
    handle.update(HTML('<i>two</i>'))
    done.set()

threading.Thread(target=work).start()
"""
TIMER = """
import threading
threading.Timer(0.2, print, ['after the cell']).start()
"""
PROGRESS = """
from tqdm.notebook import tqdm
for i in tqdm(range(4), desc='work'):
    pass
"""
SLIDER = """
import ipywidgets as widgets
from IPython.display import display
slider = widgets.IntSlider(value=3, min=0, max=10, description='size')
seen = []
slider.observe(lambda change: seen.append(change['new']), 'value')
display(slider)
"""
OBSERVE = """
import ipywidgets as widgets
from IPython.display import display
button, out = widgets.Button(description='press'), widgets.Output()

def pressed(_):
    with out:
        print('pressed', flush=True)

button.on_click(pressed)
display(button, out)
"""
INTERACT = """
from ipywidgets import interact

@interact(x=(0, 10))
def square(x=4):
    print('square', x * x)
"""
CANVAS = """
%matplotlib widget
import matplotlib.pyplot as plt, numpy as np
figure, axes = plt.subplots()
axes.imshow(np.arange(64).reshape(8, 8))
clicks = []
figure.canvas.mpl_connect('button_press_event', lambda event: clicks.append(event.button))
plt.show()
"""
ANYWIDGET = """
import anywidget, traitlets

class Counter(anywidget.AnyWidget):
    _esm = '''
    export default {render({model, el}) {
      const button = document.createElement("button");
      button.className = "counter";
      button.textContent = `count ${model.get("value")}`;
      button.onclick = () => { model.set("value", model.get("value") + 1); model.save_changes(); };
      model.on("change:value", () => { button.textContent = `count ${model.get("value")}`; });
      el.append(button);
    }};
    '''
    value = traitlets.Int(5).tag(sync=True)

counter = Counter()
counter
"""


class Checks:
    """The tests. A class below says where the kernel comes from."""

    NAME = ""

    def test_kernel(self, nb: Lab) -> None:
        """It is ipybox's, in a sandbox."""
        assert nb.kernel_name == self.NAME
        cell = nb.run("open('/etc/made-by-a-cell', 'w')")
        assert nb.error(cell) == "OSError"
        nb.wait_for_text(cell, "[ipybox]")

    def test_result(self, nb: Lab) -> None:
        cell = nb.run("print('hello')\n6 * 7")
        assert nb.shown(cell, ".jp-OutputArea-executeResult").endswith("42")
        assert nb.stream(cell) == "hello\n"

    def test_error(self, nb: Lab) -> None:
        """The traceback has colours."""
        cell = nb.run("1 / 0")
        assert "ZeroDivisionError: division by zero" in nb.shown(cell)
        assert "ZeroDivisionError" in nb.shown(cell, "[class*=ansi-][class*=-fg]") or nb.shown(
            cell, "[class*=ansi-red]"
        )

    def test_plot(self, nb: Lab) -> None:
        """The 64 squares have 64 colours."""
        cell = nb.run(PLOT)
        nb.shown(cell, "img[src^='data:image/png']")
        nb.wait_for_colours(nb.element(cell, "img"), 64)

    def test_table(self, nb: Lab) -> None:
        cell = nb.run(TABLE)
        rows = nb.shown(cell, "table").splitlines()
        assert [row.split() for row in rows] == [
            ["city", "people"],
            ["0", "Oslo", "709000"],
            ["1", "Rome", "2748000"],
        ]

    def test_latex(self, nb: Lab) -> None:
        cell = nb.run(LATEX)
        nb.shown(cell, "mjx-container mjx-mfrac mjx-sqrt")

    def test_updated_display(self, nb: Lab) -> None:
        cell = nb.run(DISPLAY_UPDATE)
        assert nb.shown(cell) == "first"
        nb.run("handle.update(HTML('<b>second</b>'))")
        nb.wait_for_text(cell, "second")
        assert nb.shown(cell) == "second"

    def test_completion(self, nb: Lab) -> None:
        cell = nb.write("'text'.isal")
        nb.page.press("Tab")
        nb.wait_for(
            "document.querySelector('.jp-Completer:not(.lm-mod-hidden) .jp-Completer-item')",
            "the completer",
        )
        items = nb.page.evaluate(
            "[...document.querySelectorAll('.jp-Completer-item')].map((i) => i.innerText)"
        )
        assert len(items) == 2 and "isalnum" in items[0] and "isalpha" in items[1]
        nb.page.press("Enter")
        nb.wait_for(f"{nb.source_of(cell)} === \"'text'.isalnum\"", "the completed code")

    def test_tooltip(self, nb: Lab) -> None:
        nb.run("def documented(x):\n    '''Says what it does.'''")
        nb.write("documented(")
        nb.page.press("Tab", SHIFT)
        text = nb.wait_for("document.querySelector('.jp-Tooltip')?.innerText", "the tooltip")
        assert "documented(x)" in text and "Says what it does." in text
        nb.page.press("Escape")

    def test_pager(self, nb: Lab) -> None:
        cell = nb.run("len?")
        nb.wait_for_text(cell, "Return the number of items in a container.")

    def test_next_input(self, nb: Lab) -> None:
        cell = nb.run("get_ipython().set_next_input('2 ** 10')")
        nb.wait_for(f"{nb.source_of(cell + 1)} === '2 ** 10'", "the new cell")

    def test_live_output(self, nb: Lab) -> None:
        """It comes while the cell runs."""
        cell = nb.start(LIVE_STREAM)
        nb.wait_for_text(cell, "line 2")
        nb.answer(cell, "yes")
        nb.wait_for_end(cell)
        assert nb.stream(cell).endswith("the end\n")

    def test_input(self, nb: Lab) -> None:
        cell = nb.start("name = input('Name? ')\nprint('hello', name)")
        nb.wait_for_text(cell, "Name?")
        assert nb.answer(cell, "Ann") == "text"
        nb.wait_for_end(cell)
        nb.wait_for_text(cell, "hello Ann")

    def test_getpass(self, nb: Lab) -> None:
        """What is typed is not shown, then and later."""
        cell = nb.start("from getpass import getpass\nsecret = getpass('Password? ')")
        nb.wait_for_text(cell, "Password?")
        assert nb.answer(cell, "sesame") == "password"
        nb.wait_for_end(cell)
        assert nb.value("secret") == "sesame"
        assert "sesame" not in str(nb.outputs(cell)) and "sesame" not in nb.shown(cell)

    def test_debugger(self, nb: Lab) -> None:
        cell = nb.start("x = 40\nbreakpoint()\nprint(x)")
        nb.wait_for_text(cell, "ipdb>")
        nb.answer(cell, "x = 41")
        nb.answer(cell, "c")
        nb.wait_for_end(cell)
        nb.wait_for_text(cell, "41")

    @pytest.mark.parametrize(
        "code, said, error",
        [(FOREVER, "running", "KeyboardInterrupt"), (AWAITS, "waiting", "CancelledError")],
        ids=["sleep", "await"],
    )
    def test_interrupt(self, nb: Lab, code: str, said: str, error: str) -> None:
        cell = nb.start(code)
        nb.wait_for_text(cell, said)
        nb.click("[data-command='notebook:interrupt-kernel'], [title^='Interrupt']")
        nb.wait_for_end(cell)
        assert nb.error(cell) == error
        assert nb.value("1 + 1") == 2

    def test_interrupted_input(self, nb: Lab) -> None:
        cell = nb.start("input('never? ')")
        nb.wait_for_text(cell, "never?")
        nb.click("[data-command='notebook:interrupt-kernel'], [title^='Interrupt']")
        nb.wait_for_end(cell)
        assert nb.error(cell) == "KeyboardInterrupt"

    def test_restart(self, nb: Lab) -> None:
        """One question, and no report that the kernel died."""
        nb.run("before = 1")
        nb.dialogs()
        nb.click("[data-command='notebook:restart-kernel'], [title^='Restart the kernel']")
        nb.click(".jp-Dialog button", "Restart")
        nb.wait_for("!document.querySelector('.jp-Dialog')", "the end of the question")
        nb.wait_until_idle()
        assert nb.value("'before' in globals()") is False
        (question,) = nb.dialogs()
        assert question.startswith("Do you want to restart the kernel")

    def test_death(self, nb: Lab) -> None:
        """It is reported, and the next cell runs."""
        nb.dialogs()
        cell = nb.start("import os\nprint('dying', flush=True)\nos._exit(3)")
        nb.wait_for("window.dialogs.length", "a report")
        (report,) = nb.dialogs()
        assert "appears to have died" in report
        nb.click(".jp-Dialog button", "Ok")
        nb.wait_until_idle()
        assert nb.value("6 * 7") == 42
        assert nb.stream(cell).startswith("dying\n")

    def test_output_of_a_thread(self, nb: Lab) -> None:
        """It belongs to the cell that started the thread."""
        cell = nb.run(THREAD)
        assert nb.stream(cell) == "started\n"
        other = nb.run("ready.set()\ndone.wait()\nprint('other')")
        assert nb.stream(other) == "other\n"
        nb.wait_for_text(cell, "from the thread")
        assert nb.stream(cell) == "started\nfrom the thread\n"

    def test_display_of_a_thread(self, nb: Lab) -> None:
        cell = nb.run(THREAD_DISPLAY)
        other = nb.run("ready.set()\ndone.wait();")
        assert nb.outputs(other) == []
        nb.wait_for_text(cell, "one")
        nb.wait_for_text(cell, "two")
        assert nb.shown(cell).split() == ["two", "one"]

    def test_output_while_no_cell_runs(self, nb: Lab) -> None:
        cell = nb.run(TIMER)
        nb.wait_for_text(cell, "after the cell")

    def test_progress_bar(self, nb: Lab) -> None:
        cell = nb.widget(PROGRESS, ".widget-hprogress")
        nb.wait_for_text(cell, "100%")
        nb.wait_for_text(cell, "4/4")
        assert nb.shown(cell).split()[:2] == ["work:", "100%"]

    def test_slider(self, nb: Lab) -> None:
        """Keys and the mouse change the value in Python."""
        cell = nb.widget(SLIDER, ".widget-slider .noUi-handle")
        assert nb.shown(cell).split() == ["size", "3"]
        nb.page.evaluate(f"{nb.element(cell, '.noUi-handle')}.focus()")
        nb.page.press("ArrowRight")
        nb.wait_for_text(cell, "4")
        assert nb.value("[slider.value, seen]") == [4, [4]]
        nb.page.drag(nb.element(cell, ".noUi-handle"), 1000)
        nb.wait_for_text(cell, "10")
        assert nb.value("[slider.value, seen[-1]]") == [10, 10]
        nb.run("slider.value = 7")
        nb.wait_for_text(cell, "7")

    def test_callback_prints(self, nb: Lab) -> None:
        """Into an Output() widget."""
        cell = nb.widget(OBSERVE, ".widget-button")
        nb.page.click(nb.element(cell, ".widget-button"))
        nb.wait_for_text(cell, "pressed")

    def test_interact(self, nb: Lab) -> None:
        cell = nb.widget(INTERACT, ".widget-slider .noUi-handle")
        nb.wait_for_text(cell, "square 16")
        nb.page.evaluate(f"{nb.element(cell, '.noUi-handle')}.focus()")
        nb.page.press("ArrowRight")
        nb.wait_for_text(cell, "square 25")
        assert "square 16" not in nb.shown(cell)

    def test_anywidget(self, nb: Lab) -> None:
        cell = nb.widget(ANYWIDGET, "button.counter")
        nb.wait_for_text(cell, "count 5")
        nb.page.click(nb.element(cell, "button.counter"))
        nb.wait_for_text(cell, "count 6")
        assert nb.value("counter.value") == 6

    def test_saved(self, nb: Lab) -> None:
        """The notebook's file has what was put out."""
        nb.run("print('to be ' + 'saved')")
        nb.page.evaluate("jupyterapp.commands.execute('docmanager:save')")
        nb.wait_for("!jupyterapp.shell.currentWidget.context.model.dirty", "a saved notebook")
        assert nb.value("'to be saved' in open('notebook.ipynb').read()")


class TestKernelspec(Checks):
    """JupyterLab starts the kernel: `ipybox kernelspec install`."""

    NAME = "Python 3 (ipybox sandbox)"

    @pytest.fixture
    def nb(self, kernelspec: Lab) -> Lab:
        return kernelspec

    def test_figure(self, nb: Lab) -> None:
        """ipympl draws on a canvas, and Python sees a click there.

        Not through the gateway: JupyterLab's server reads binary frames of a gateway as UTF-8.
        """
        cell = nb.widget(CANVAS, "canvas")
        canvas = nb.element(cell, "canvas")
        nb.wait_for(f"{canvas}.width > 100", "the size of the figure")
        nb.wait_for_colours(canvas, 64)
        nb.page.click(canvas)
        assert nb.value("clicks") == [1]
        nb.run("%matplotlib inline")


class TestGateway(Checks):
    """JupyterLab gets the kernel from `ipybox gateway`."""

    NAME = "Python 3 (ipybox)"

    @pytest.fixture
    def nb(self, gateway: Lab) -> Lab:
        return gateway
