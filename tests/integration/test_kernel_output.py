# SPDX-License-Identifier: Apache-2.0
"""The output of cells of the kernel host: displays, and text in its order.

See test_kernel_host.py.
"""

from __future__ import annotations

import base64
import signal

import pytest
from kernel_driver import only_error

# Displays


def test_mime_bundles(kernel):
    cell = kernel.run(
        "from IPython.display import *\n"
        "display(HTML('<b>'), Markdown('*m*'), Latex('$l$'), JSON({'a': [1, None]}), "
        "SVG('<svg/>'),\n"
        "        Javascript('1'), Image(b'\\x89PNG\\r\\n\\x1a\\n123', format='png'),\n"
        "        Image(b'\\xff\\xd8\\xff123', format='jpeg'))"
    )
    data = [display["data"] for display in cell.displays]
    assert data[0]["text/html"] == "<b>"
    assert data[1]["text/markdown"] == "*m*"
    assert data[2]["text/latex"] == "$l$"
    assert data[3]["application/json"] == {"a": [1, None]}
    assert data[4]["image/svg+xml"] == "<svg/>"
    assert data[5]["application/javascript"] == "1"
    assert base64.b64decode(data[6]["image/png"], validate=True).startswith(b"\x89PNG")
    assert base64.b64decode(data[7]["image/jpeg"], validate=True) == b"\xff\xd8\xff123"


def test_display_updates_and_clear_output(kernel):
    cell = kernel.run(
        "handle = display('a', display_id=True)\nhandle.update('b')\n"
        "from IPython.display import clear_output, display as show\n"
        "show('c', display_id='own')\nclear_output(wait=True)"
    )
    (first, second, third, clear, _) = cell.events
    assert first[0] == "display" and second[0] == "update_display"
    assert first[1]["display_id"] == second[1]["display_id"]
    assert third[1]["display_id"] == "own"
    assert clear == ("clear_output", {"cell": 1, "wait": True})


def test_bundles_are_made_to_fit_the_wire(kernel):
    cell = kernel.run(
        "class A:\n"
        "    def _repr_mimebundle_(self, **_):\n"
        "        import datetime\n"
        "        return ({'application/json': {1: float('nan'), 'd': datetime.date(2020, 1, "
        "1), 's': {2}},\n"
        "                 'text/html': b'<i>', 'image/png': b'ab', 'application/x-own': 'not "
        "base 64!',\n"
        "                 'image/gif': 'YW\\nI=', 'text/plain': '\\ud800', "
        "'application/pdf': None,\n"
        "                 'application/vnd.own.v1+json': [1]}, {'width': b'x'})\n"
        "display(A())"
    )
    (display,) = cell.displays
    data = display["data"]
    assert data["application/json"] == {"1": None, "d": "2020-01-01", "s": [2]}
    assert data["text/html"] == "<i>"
    assert data["image/png"] == base64.b64encode(b"ab").decode()
    assert base64.b64decode(data["application/x-own"]) == b"not base 64!"
    assert data["image/gif"] == "YWI="
    assert data["text/plain"] == "\ud800"
    assert data["application/vnd.own.v1+json"] == [1]
    assert "application/pdf" not in data


def test_what_is_too_large_is_refused(kernel):
    cell = kernel.run(
        "display({'text/plain': 'x' * (65 << 20)}, raw=True)\nprint('on')\n'y' * (65 << 20)"
    )
    assert cell.displays == [] and cell.results == [] and cell.status == "ok"
    assert cell.stderr.count("too large") == 2 and cell.stdout == "on\n"
    error = only_error(kernel.run("raise ValueError('z' * (65 << 20))"))
    assert "left out" in error["evalue"] and len(error["traceback"]) < 2_000_000


# A value that cannot be shown, or only in part, is shown as by IPython's own kernel.
BROKEN = {
    "html": ("class A:\n    def _repr_html_(self): return 1/0\nA()", "<__main__.A"),
    "bundle": ("class A:\n    def _repr_mimebundle_(self, **_): return 1/0\nA()", "<__main__.A"),
    "display": ("class A:\n    def _ipython_display_(self): return 1/0\nA()", "<__main__.A"),
    "repr": ("class A:\n    def __repr__(self): return 1/0\nA()", None),
    "repr in a list": ("class A:\n    def __repr__(self): return 1/0\n[A()]", None),
    "repr after an await": (
        "import asyncio\nclass A:\n    def __repr__(self): return 1/0\nawait asyncio.sleep(0)\nA()",
        None,
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_repr_fails_the_cell(kernel, name):
    code, shown = BROKEN[name]
    cell = kernel.run(code)
    assert cell.status == "error" and [error["ename"] for error in cell.errors] == [
        "ZeroDivisionError"
    ]
    assert cell.stderr == "" and len(cell.results) == (shown is not None)
    assert shown is None or cell.result.startswith(shown)
    assert kernel.run("1").status == "ok"


def test_a_broken_repr_of_what_is_displayed_does_not_fail_the_cell(kernel):
    cell = kernel.run("class A:\n    def __repr__(self): return 1/0\ndisplay(A())\nprint('after')")
    assert (
        cell.status == "ok"
        and cell.errors == []
        and "ZeroDivisionError" in cell.stderr
        and cell.stdout == "after\n"
    )


def test_pandas(kernel):
    pytest.importorskip("pandas")
    data = kernel.run("import pandas as pd\npd.DataFrame({'a': [1, 2]})").results[0]["data"]
    assert "<table" in data["text/html"] and data["text/plain"].split() == ["a", "0", "1", "1", "2"]


def test_plots(kernel):
    pytest.importorskip("matplotlib")
    assert kernel.run("import sys; 'matplotlib' in sys.modules").result == "False"
    cell = kernel.run("import matplotlib.pyplot as plt\nplt.plot([1, 2])\nprint('drawn');")
    assert cell.stdout == "drawn\n"
    assert [name for name, _ in cell.events][-2:] == ["display", "done"]
    assert base64.b64decode(cell.displays[0]["data"]["image/png"]).startswith(b"\x89PNG")
    cell = kernel.run(
        "plt.figure(); plt.plot([1]); plt.show()\nprint('after')\nplt.figure(); plt.plot([2]);"
    )
    assert cell.order == ["display", "after\n", "display", "done"]
    cell = kernel.run("plt.plot([1])\n1/0")
    assert cell.order == ["error", "display", "done"]
    assert kernel.run("%matplotlib inline\nfig, ax = plt.subplots()").order[-2:] == [
        "display",
        "done",
    ]
    assert kernel.run("fig").results[0]["data"].keys() == {"text/plain", "image/png"}
    assert kernel.run("1").order == ["result", "done"]


# Output


def test_order_of_stdout_stderr_and_frames(kernel):
    cell = kernel.run(
        "import sys\nfor i in range(3):\n"
        "    print('o', i)\n    print('e', i, file=sys.stderr)\n    display(i)\n"
        "    sys.stdout.write('p')"
    )
    assert cell.order == [
        *("o 0\n", "e 0\n", "display"),
        *("po 1\n", "e 1\n", "display"),
        *("po 2\n", "e 2\n", "display", "p", "done"),
    ]


def test_order_with_c_code_and_children(kernel):
    cell = kernel.run(
        "import ctypes, os, subprocess\nlibc = ctypes.CDLL(None)\n"
        "print('python')\nos.write(1, b'raw\\n')\nprint('partial', end='')\n"
        "subprocess.run(['echo', ' child'])\n"
        "libc.printf(b'c\\n')\ndisplay(1)\nos.system('echo system')\nprint('end')\n"
        "libc.printf(b'late c\\n');"
    )
    assert cell.order == [
        "python\nraw\npartial child\nc\n",
        "display",
        "system\nend\nlate c\n",
        "done",
    ]


def test_thousands_of_cells_lose_nothing(kernel):
    kernel.run("import os, sys, ctypes\nlibc = ctypes.CDLL(None)")
    code = (
        "print('p', {0})\nos.write(1, b'w {0}\\n')\nlibc.puts(b'c {0}')\nlibc.fflush(None)\n"
        "print('e', {0}, file=sys.stderr)\ndisplay({0})\n{0}"
    )
    for number in range(1000):
        assert kernel.run(code.format(number)).order == [
            *(
                f"p {number}\nw {number}\nc {number}\n",
                f"e {number}\n",
                "display",
                "result",
                "done",
            ),
        ]


def test_threads_print_whole_lines(kernel):
    cell = kernel.run(
        "import threading, sys\n"
        "def work(n):\n    for i in range(2000): sys.stdout.write(f'{n} {i}\\n')\n"
        "threads = [threading.Thread(target=work, args=(n,)) for n in range(3)]\n"
        "for t in threads: t.start()\nfor i in range(50): display(i)\nfor t in threads: t.join()"
    )
    lines = cell.stdout.splitlines()
    assert len(lines) == 6000 and len(cell.displays) == 50
    for n in "012":
        assert [line for line in lines if line[0] == n] == [f"{n} {i}" for i in range(2000)]


def test_large_output_is_complete(kernel):
    cell = kernel.run("for i in range(300_000): print('%07d' % i + 'x' * 92)")
    assert cell.stdout == "".join("%07d" % i + "x" * 92 + "\n" for i in range(300_000))
    assert len(kernel.run("print('y' * 50_000_000)").stdout) == 50_000_001
    cell = kernel.run("import os\nfor i in range(800): os.write(1, b'z' * 65536)\ndisplay(1)")
    assert len(cell.stdout) == 800 * 65536 and cell.order[-2:] == ["display", "done"]


def test_text_appears_while_the_cell_goes_on(kernel):
    for wait in ("time.sleep(1000)", "threading.Event().wait()"):
        kernel.execute(f"import time, threading\nprint('x', end='')\n{wait}")
        kernel.wait_for_text(b"x")
        kernel.interrupt()
        assert kernel.finish().status == "interrupted"


def test_a_flood_appears_too(kernel):
    kernel.execute("import time\nfor i in range(1000): print(i)\ntime.sleep(1000)")
    kernel.wait_for_text(b"\n999\n")
    kernel.interrupt()
    assert kernel.finish().stdout.split() == [str(i) for i in range(1000)]


def test_any_text_can_be_printed(kernel):
    assert kernel.run("print('\\ud800', 'ä', '\\0', '😀')").stdout == "\\ud800 ä \0 😀\n"
    kernel.run("import sys\nsys.stdout.write(chr(0) + 'abc')")
    assert kernel.run("sys.stderr.write('\\ud800\\n');").stderr == "\\ud800\n"


def test_stream_attributes(kernel):
    kernel.run("import sys, io, contextlib")
    assert (
        kernel.run("sys.stdout.encoding, sys.stdout.errors").result
        == "('utf-8', 'backslashreplace')"
    )
    assert (
        kernel.run("sys.stdout.fileno(), sys.stderr.fileno(), sys.stdout.isatty()").result
        == "(1, 2, False)"
    )
    assert (
        kernel.run("sys.stdout.name, sys.stdout.mode, sys.stdout.buffer.mode").result
        == "('<stdout>', 'w', 'wb')"
    )
    assert kernel.run(
        "sys.__stdout__ is sys.stdout, sys.stdout.closed, sys.stdout.writable()"
    ).result == ("(True, False, True)")
    assert (
        kernel.run("isinstance(sys.stdout, io.TextIOWrapper), sys.stdout.buffer.fileno()").result
        == "(True, 1)"
    )
    cell = kernel.run(
        "print('a', end='')\nsys.stdout.buffer.write(b'\\xc3\\xa4')\nprint('b', end='')\n"
        "sys.stdout.buffer.write(memoryview(b'c'))\nsys.stdout.buffer.flush()\n"
        "sys.stdout.writelines(['d', 'e'])"
    )
    assert cell.stdout == "aäbcde"
    cell = kernel.run(
        "with contextlib.redirect_stdout(io.StringIO()) as f: print('in')\nprint('out')\n"
        "f.getvalue()"
    )
    assert cell.stdout == "out\n" and cell.result == "'in\\n'"
    kernel.run("sys.stdout.reconfigure(errors='replace', line_buffering=True)")
    assert kernel.run("print('\\ud800')").stdout == "?\n"
    assert only_error(kernel.run("print(1, file=sys.stdout.buffer)"))["ename"] == "TypeError"


def test_closed_streams_come_back(kernel):
    for code in (
        "import os, sys\nos.close(1)",
        "sys.stdout.close()",
        "sys.stderr = None; sys.stdout = None",
        "os.close(1); os.close(2); sys.stdout.close(); sys.stderr.close()",
        "sys.__stdout__.close()",
    ):
        kernel.run(code)
        cell = kernel.run("print('out')\nprint('err', file=sys.stderr)\n1")
        assert cell.order == ["out\n", "err\n", "result", "done"], code


def test_stdin_that_was_closed_comes_back(kernel):
    kernel.run("import os\nos.close(0)")
    assert kernel.run("os.path.sameopenfile(0, os.open(os.devnull, os.O_RDONLY))").result == "True"


def test_streams_can_be_wrapped_anew(kernel):
    """Scripts do it to change the encoding.

    Their text is not lost, and the kernel's own streams remain.
    """
    for stream in ("sys.stdout.detach()", "sys.stdout.buffer"):
        cell = kernel.run(
            f"import io, sys\nsys.stdout = io.TextIOWrapper({stream}, encoding='utf-8')\n"
            f"print('ä')\n1"
        )
        assert cell.stdout == "ä\n" and cell.result == "1"
        assert kernel.run("print('b', end='')").stdout == "b"
        assert kernel.run("sys.stdout = sys.__stdout__\nprint('c')").stdout == "c\n"
        cell = kernel.run("_ = sys.stdout.buffer.write(b'd')\nprint('e')")
        assert cell.stdout == "de\n", cell.events


def test_streams_that_cannot_be_used_are_replaced(kernel):
    for code in (
        "import io, sys\nsys.stdout = io.TextIOWrapper(io.BytesIO())\ns = sys.stdout.detach()",
        (
            "class Proxy:\n    def __getattr__(self, name): raise RuntimeError(name)\n"
            "sys.stdout = sys.stderr = Proxy()"
        ),
    ):
        kernel.run(code)
        assert kernel.run("print('out')\nprint('err', file=sys.stderr)").order == [
            "out\n",
            "err\n",
            "done",
        ], code


def test_a_cell_ends_whatever_became_of_the_interpreters_tables(kernel):
    kernel.run("import sys\nkept = sys.path_importer_cache\nsys.path_importer_cache = None")
    assert kernel.run("sys.path_importer_cache = kept\n1").result == "1"


def test_printing_to_a_closed_descriptor_is_an_error(kernel):
    assert (
        only_error(kernel.run("import os\nos.close(1)\nprint('x', flush=True)"))["ename"]
        == "OSError"
    )
    assert kernel.run("print('y')").stdout == "y\n"


def test_descriptors_can_be_redirected(kernel, tmp_path):
    file = tmp_path / "out"
    cell = kernel.run(
        "import os, sys\nprint('a')\nsaved = os.dup(1)\n"
        f"fd = os.open({str(file)!r}, os.O_WRONLY | os.O_CREAT)\nos.dup2(fd, 1)\n"
        "print('b')\nsys.stdout.flush()\nos.system('echo c')\nos.dup2(saved, 1)\nprint('d')"
    )
    assert cell.stdout == "a\nd\n" and file.read_text() == "b\nc\n"


def test_output_of_threads_after_the_cell(kernel):
    kernel.run(
        "import threading\ngo = threading.Event()\n"
        "def late():\n    go.wait()\n    print('late')\n    display('late')\n"
        "t = threading.Thread(target=late)\nt.start()"
    )
    # Not by a timer, which may expire while the cell is still running.
    kernel.run("import signal\nsignal.signal(signal.SIGUSR1, lambda *_: go.set())")
    kernel.signal(signal.SIGUSR1)
    frame = kernel.wait_for("display")
    stream = {"cell": 1, "name": "stdout", "text": "late\n"}
    assert frame["cell"] == 1 and ("stream", stream) in kernel.reader.events


def test_a_display_from_a_finalizer_or_signal_handler_breaks_nothing(kernel):
    cell = kernel.run(
        "import signal\nsignal.signal(signal.SIGALRM, lambda *_: display('tick'))\n"
        "signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)\n"
        "for i in range(2000): display('x' * 2000)\n"
        "signal.setitimer(signal.ITIMER_REAL, 0)\n"
        "class A:\n    def __del__(self): print('gone'); display('gone')\nfor i in range(10): A()"
    )
    shown = [display["data"]["text/plain"][:6] for display in cell.displays]
    assert shown.count("'xxxxx") == 2000 and shown.count("'gone'") == 10 and cell.status == "ok"
