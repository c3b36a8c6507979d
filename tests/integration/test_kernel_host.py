# SPDX-License-Identifier: Apache-2.0
"""The kernel host (python/ipybox/kernel_host), driven as the core drives it: what cells do and show.

Its forkserver, processes and deaths are in test_forkserver.py.
"""

from __future__ import annotations

import base64
import json
import os
import re
import signal
import sys
import time

import pytest
from kernel_driver import REQUEST, Forkserver


@pytest.fixture(scope="module")
def forkserver():
    server = Forkserver()
    server.wait_for("ready")
    server.wait_for("preloaded")
    yield server
    assert server.stop() == 0


@pytest.fixture
def make_kernel(forkserver):
    kernels = []

    def make(**start):
        kernels.append(forkserver.kernel(**start))
        return kernels[-1]

    yield make
    for kernel in kernels:
        forkserver.end(kernel)


@pytest.fixture
def kernel(make_kernel):
    return make_kernel()


def only_error(cell):
    """The cell's one error; that it shows nothing of ours and no colour."""
    assert cell.status == "error", cell.events
    (error,) = cell.errors
    assert "ipybox_kernel" not in error["traceback"]
    assert "\x1b" not in error["traceback"]
    return error


# Cells


def test_results_and_state(kernel):
    assert kernel.run("x = 40\nx + 2").result == "42"
    assert kernel.run("print('a')\nx").order == ["a\n", "result", "done"]
    assert kernel.run("_ + 1").result == "41"
    assert kernel.run("Out[1], In[1], _i2, _2").result == "(42, 'x = 40\\nx + 2', \"print('a')\\nx\", 40)"
    assert kernel.run("x;").results == []
    assert kernel.run("';'").result == "';'"
    assert kernel.run("None").results == []
    assert kernel.run("").order == ["done"]
    assert kernel.run("# nothing").order == ["done"]


def test_done_tells_directory_and_count(kernel, tmp_path):
    assert kernel.run("1").done["execution_count"] == 1
    cell = kernel.run(f"%cd -q {tmp_path}")
    assert cell.done["cwd"] == str(tmp_path) and cell.done["execution_count"] == 2
    assert kernel.run(f"import os; os.rmdir({str(tmp_path)!r})").done["cwd"] == ""


def test_silent_and_unstored_cells(kernel):
    assert kernel.run("1", silent=True).order == ["done"]
    assert kernel.run("2", store_history=False).result == "2"
    cell = kernel.run("len(In)")
    assert cell.result == "2" and cell.done["execution_count"] == 1


def test_warm_up_left_nothing_behind(kernel):
    names = kernel.run("' '.join(name for name in dir() if not name.startswith('_'))").result
    assert names.replace(" open", "") == "'In Out exit get_ipython quit'"
    assert kernel.run("import sys, linecache; hasattr(sys, 'last_value'), len(linecache.cache)").result[:6] == "(False"


def test_fresh_namespace(kernel):
    assert kernel.run("[len(In), Out, _, __, ___, _i, _ii, _i1 == In[1]]").result == "[2, {}, '', '', '', '', '', True]"
    assert kernel.run("__name__").result == "'__main__'"


@pytest.mark.parametrize(
    "value",
    ["1", "True", "1.5", "'a\\n'", "b'x'", "[1, 'a']", "{'a': [1]}", "(1,)", "{1}", "1j", "2**70", "list(range(60))"],
)
def test_plain_results_are_as_ipython_shows_them(kernel, value):
    shown = kernel.run(value).result
    assert shown == kernel.run(f"print(get_ipython().display_formatter.format({value})[0]['text/plain'])").stdout[:-1]


def test_own_formatters_count_for_plain_types(kernel):
    kernel.run("html = get_ipython().display_formatter.formatters['text/html']\nhtml.for_type(int, lambda x: '<b>')")
    assert kernel.run("1").results[0]["data"] == {"text/html": "<b>", "text/plain": "1"}
    kernel.run("get_ipython().display_formatter.formatters['text/plain'].for_type(str, lambda s, p, c: p.text('S'))")
    assert kernel.run("'x'").result == "S"
    kernel.run("%precision 2")
    assert kernel.run("1/3").result == "0.33"


def test_top_level_await(kernel):
    assert kernel.run("import asyncio\nawait asyncio.sleep(0)\n3").result == "3"
    assert kernel.run("async def f():\n    return 7\nawait f()").result == "7"
    kernel.run("async def g():\n    yield 1\n    yield 2")
    assert kernel.run("[x async for x in g()]").result == "[1, 2]"
    assert kernel.run("text = 'await async'\nlen(text)").result == "11"
    assert only_error(kernel.run("await asyncio.sleep(0)\n1/0"))["ename"] == "ZeroDivisionError"


def test_tasks_go_on_between_cells(kernel):
    kernel.run(
        "import asyncio\nevent = asyncio.Event()\n"
        "async def work():\n    await event.wait()\n    print('worked')\n"
        "task = asyncio.create_task(work())"
    )
    cell = kernel.run("asyncio.get_running_loop().call_soon(event.set);")
    if "worked" not in cell.stdout:
        kernel.wait_for_text(b"worked")


def test_a_task_that_raises_through_the_loop_ends_nothing(kernel):
    kernel.run("import asyncio, sys\nasync def leave():\n    sys.exit(3)\ntask = asyncio.create_task(leave())")
    kernel.run("await asyncio.sleep(0.01)")
    assert kernel.run("asyncio.get_running_loop().stop()\n5").result == "5"
    assert kernel.run("6").result == "6"


def test_context_variables_last(kernel):
    kernel.run("import decimal\ndecimal.getcontext().prec = 5")
    assert kernel.run("str(decimal.Decimal(1) / 3)").result == "'0.33333'"
    if sys.version_info >= (3, 11):
        kernel.run("import asyncio\nawait asyncio.sleep(0)\ndecimal.getcontext().prec = 3")
        assert kernel.run("str(decimal.Decimal(1) / 3)").result == "'0.333'"


def test_queued_cells_run_in_order(kernel):
    numbers = [kernel.execute(f"print({i})") for i in range(20)]
    kernel.wait_until(lambda event: event[0] == "done" and event[1]["cell"] == numbers[-1])
    events = kernel.take_events()
    assert b"".join(data for name, data in events if name == "stdout").split() == [b"%d" % i for i in range(20)]


# Magics and commands


def test_magics(kernel, tmp_path):
    assert "loop" in kernel.run("%timeit -n1 -r1 1").stdout
    assert kernel.run("%%capture c\nprint('x')\ndisplay(1)").order == ["done"]
    assert kernel.run("c.stdout, len(c.outputs)").result == "('x\\n', 1)"
    script = tmp_path / "script.py"
    script.write_text("y = 5\nprint(__name__)")
    assert kernel.run(f"%run {script}").stdout == "__main__\n"
    assert kernel.run("y").result == "5"
    assert "wall" in kernel.run("%%time\n1").stdout.lower()
    assert kernel.run("who").stdout.split() == ["c", "y"]
    assert kernel.run("pwd").result == "'/tmp'"
    assert "print('x')" in kernel.run("%history").stdout
    assert kernel.run("z = 3\n%store z").status == "ok"
    assert kernel.run("%load_ext autoreload\n%autoreload 2").status == "ok"
    assert kernel.run("len?").displays[0]["data"]["text/plain"].startswith("Signature: len(")
    assert only_error(kernel.run("%nonsense"))["ename"] == "UsageError"
    assert kernel.run("x = %pwd\nx").result == "'/tmp'"
    # What is put at the next prompt elsewhere is shown; what needs a terminal says so.
    assert kernel.run(f"%load {script}").stdout == "# %load " + str(script) + "\ny = 5\nprint(__name__)\n"
    assert "no terminal" in only_error(kernel.run(f"%edit {script}"))["evalue"]
    assert kernel.run("%gui asyncio").order == ["done"]


def test_shell_commands(kernel):
    assert kernel.run("!echo out; echo err >&2").order in (["out\n", "err\n", "done"], ["err\n", "out\n", "done"])
    assert kernel.run("x = !echo a; echo b\nx").result == "['a', 'b']"
    assert kernel.run("name = 'w'\n!echo $name {name}").stdout == "w w\n"
    assert kernel.run("!exit 3\n_exit_code").result == "3"
    assert kernel.run("!cat").stdout == ""
    assert kernel.run("print('before', end='')\n!echo -n ' in '\nprint('after')").stdout == "before in after\n"
    assert kernel.run("%sx echo q").result == "['q']"
    assert kernel.run("%%bash\nA=1\necho $A\necho e >&2").stdout == "1\n"
    assert kernel.run("%%sh\necho hi").stdout == "hi\n"
    assert kernel.run("%%script cat\nhi").stdout == "hi\n"
    assert kernel.run("%%bash --out text\necho hi").order == ["done"]
    assert kernel.run("text").result == "'hi\\n'"
    assert only_error(kernel.run("%%bash\nexit 3"))["ename"] == "CalledProcessError"
    assert kernel.run("%%bash --no-raise-error\nexit 3").status == "ok"
    assert kernel.run("%%script nonsense-program\n1").stdout.startswith("Couldn't find program")
    assert kernel.run("%%capture c\n!echo captured").stdout == ""
    assert kernel.run("c.stdout").result == "'captured\\n'"


def test_a_command_shows_its_output_as_it_comes(kernel, tmp_path):
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    kernel.execute(f"!echo first; cat {fifo}")
    kernel.wait_for_text(b"first")
    fifo.write_text("second\n")
    assert kernel.finish().stdout == "first\nsecond\n"


def test_no_thread_comes_of_scripts(kernel):
    kernel.run("%%bash\necho 1")
    kernel.run("!echo 1")
    assert kernel.run("import threading; threading.active_count()").result == "1"


def test_what_a_command_installed_can_be_imported_at_once(make_kernel, tmp_path):
    overlay = tmp_path / "overlay"  # does not exist when the kernel starts
    kernel = make_kernel(path=(str(overlay),))
    assert only_error(kernel.run("import new_module"))["ename"] == "ModuleNotFoundError"
    cell = kernel.run(f"!mkdir {overlay} && echo 'x = 5' > {overlay}/new_module.py\nimport new_module\nnew_module.x")
    assert cell.result == "5"
    kernel.run(f"import subprocess\nsubprocess.run(['sh', '-c', 'echo x=6 > {overlay}/second_module.py'])")
    assert kernel.run("import second_module\nsecond_module.x").result == "6"


def test_pip_installs_for_the_same_cell(make_kernel, tmp_path):
    package = tmp_path / "package"
    package.mkdir()
    (package / "backend.py").write_text(
        "import zipfile\n"
        "def build_wheel(directory, *_, **__):\n"
        "    name = 'tiny-1-py3-none-any.whl'\n"
        "    with zipfile.ZipFile(directory + '/' + name, 'w') as wheel:\n"
        "        wheel.writestr('tiny_package.py', 'x = 7')\n"
        "        wheel.writestr('tiny-1.dist-info/METADATA', 'Metadata-Version: 2.1\\nName: tiny\\nVersion: 1\\n')\n"
        "        wheel.writestr('tiny-1.dist-info/WHEEL',\n"
        "            'Wheel-Version: 1.0\\nGenerator: x\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n')\n"
        "        wheel.writestr('tiny-1.dist-info/RECORD', '')\n"
        "    return name\n"
    )
    (package / "pyproject.toml").write_text(
        "[build-system]\nrequires = []\nbuild-backend = 'backend'\nbackend-path = ['.']\n"
        "[project]\nname = 'tiny'\nversion = '1'\n"
    )
    kernel = make_kernel(path=(str(tmp_path / "overlay"),))
    cell = kernel.run(
        f"%pip install -q --no-deps --no-index --target {tmp_path}/overlay {package}\n"
        "import tiny_package\ntiny_package.x"
    )
    assert cell.result == "7", cell.events


# Displays


def test_mime_bundles(kernel):
    cell = kernel.run(
        "from IPython.display import *\n"
        "display(HTML('<b>'), Markdown('*m*'), Latex('$l$'), JSON({'a': [1, None]}), SVG('<svg/>'),\n"
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
        "        return ({'application/json': {1: float('nan'), 'd': datetime.date(2020, 1, 1), 's': {2}},\n"
        "                 'text/html': b'<i>', 'image/png': b'ab', 'application/x-own': 'not base 64!',\n"
        "                 'image/gif': 'YW\\nI=', 'text/plain': '\\ud800', 'application/pdf': None,\n"
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
    cell = kernel.run("display({'text/plain': 'x' * (65 << 20)}, raw=True)\nprint('on')\n'y' * (65 << 20)")
    assert cell.displays == [] and cell.results == [] and cell.status == "ok"
    assert cell.stderr.count("too large") == 2 and cell.stdout == "on\n"
    error = only_error(kernel.run("raise ValueError('z' * (65 << 20))"))
    assert "left out" in error["evalue"] and len(error["traceback"]) < 2_000_000


def test_a_broken_repr_does_not_fail_the_cell(kernel):
    cell = kernel.run("class A:\n    def _repr_html_(self): return 1/0\nA()")
    assert cell.status == "ok" and cell.errors == []
    assert "ZeroDivisionError" in cell.stderr and cell.result.startswith("<__main__.A")


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
    cell = kernel.run("plt.figure(); plt.plot([1]); plt.show()\nprint('after')\nplt.figure(); plt.plot([2]);")
    assert cell.order == ["display", "after\n", "display", "done"]
    cell = kernel.run("plt.plot([1])\n1/0")
    assert cell.order == ["error", "display", "done"]
    assert kernel.run("%matplotlib inline\nfig, ax = plt.subplots()").order[-2:] == ["display", "done"]
    assert kernel.run("fig").results[0]["data"].keys() == {"text/plain", "image/png"}
    assert kernel.run("1").order == ["result", "done"]


# Errors


def test_traceback_shows_the_users_frames(kernel):
    kernel.run("def f(x):\n    y = x\n    return 1 / y")
    text = only_error(kernel.run("f(0)"))["traceback"]
    assert "----> 1 f(0)" in text and "in f(x)" in text and "----> 3     return 1 / y" in text
    assert len(re.findall(r"(?:Cell|Input) In ?\[\d\]", text)) == 2
    assert "interactiveshell" not in text and "asyncio" not in text


def test_traceback_of_an_async_cell(kernel):
    text = only_error(kernel.run("import asyncio\nasync def f():\n    1/0\nawait f()"))["traceback"]
    assert "----> 4 await f()" in text and "in f()" in text
    assert "interactiveshell" not in text and "asyncio/" not in text


def test_chained_exceptions(kernel):
    text = only_error(kernel.run("try:\n    1/0\nexcept ZeroDivisionError as e:\n    raise KeyError('k') from e"))
    assert "direct cause" in text["traceback"] and text["ename"] == "KeyError"


def test_syntax_errors(kernel):
    error = only_error(kernel.run("a = 1\nb = = 2"))
    assert error["ename"] == "SyntaxError" and "b = = 2" in error["traceback"] and "^" in error["traceback"]
    assert only_error(kernel.run("  x = 1\n y = 2"))["ename"] == "IndentationError"
    assert only_error(kernel.run("return 1"))["ename"] == "SyntaxError"
    assert only_error(kernel.run("eval('1 +')"))["ename"] == "SyntaxError"
    assert only_error(kernel.run("x = '\ud800'"))["ename"] in ("UnicodeEncodeError", "SyntaxError", "ValueError")
    assert only_error(kernel.run("x = '\0'"))["ename"] in ("SyntaxError", "ValueError")
    assert kernel.run("1").result == "1"


def test_exceptions_that_cannot_be_shown(kernel):
    error = only_error(kernel.run("class E(Exception):\n    def __str__(self): raise TypeError('no')\nraise E"))
    assert error["ename"] == "E" and "__str__ raised TypeError" in error["evalue"]
    assert only_error(kernel.run("def f(): f()\nf()"))["ename"] == "RecursionError"
    assert only_error(kernel.run("raise BaseException('b')"))["evalue"] == "b"
    assert only_error(kernel.run("raise GeneratorExit"))["ename"] == "GeneratorExit"
    assert only_error(kernel.run("raise KeyboardInterrupt"))["ename"] == "KeyboardInterrupt"
    kernel.run(
        "class Meta(type):\n    def __getattribute__(cls, name): raise ValueError(name)\n"
        "class Nameless(Exception, metaclass=Meta): pass\n"
        "class Rootless(Exception):\n    __cause__ = property(lambda self: 1 / 0)"
    )
    only_error(kernel.run("raise Nameless"))
    only_error(kernel.run("raise Rootless"))


@pytest.mark.skipif(sys.version_info < (3, 11), reason="exception groups")
def test_exception_groups(kernel):
    error = only_error(kernel.run("raise ExceptionGroup('g', [ValueError(1), KeyError(2)])"))
    assert error["ename"] == "ExceptionGroup" and "ValueError: 1" in error["traceback"]
    assert "run_code" not in error["traceback"]


def test_exit_ends_the_cell_and_not_the_kernel(kernel):
    kernel.run("x = 1")
    for code, evalue in (("exit()", ""), ("quit", ""), ("import sys; sys.exit(3)", "3"), ("exit(4)", "4")):
        cell = kernel.run(code)
        error = only_error(cell)
        assert error["ename"] == "SystemExit" and error["evalue"] == evalue
        assert cell.stderr == "" and "keeps its state" in error["traceback"]
    cell = kernel.run("exit()\nprint('not reached')")
    assert cell.stdout == ""
    assert kernel.run("x").result == "1"
    assert kernel.run("In[1], In[2]").result == "('x = 1', 'exit()')"


def test_input_is_refused(kernel):
    for code in ("input('?')", "import getpass; getpass.getpass()"):
        error = only_error(kernel.run(code))
        assert error["ename"] == "StdinNotImplementedError" and "no terminal" in error["evalue"]
    assert kernel.run("import sys; sys.stdin.read()").result == "''"
    cell = kernel.run("breakpoint()\n1")
    assert cell.result == "1" and "no terminal" in cell.stderr
    only_error(kernel.run("1/0"))
    assert only_error(kernel.run("%debug"))["ename"] == "StdinNotImplementedError"


def test_errors_are_without_colour(kernel):
    kernel.run("%colors linux")
    for mode in ("minimal", "verbose", "plain", "context"):
        kernel.run(f"%xmode {mode}")
        assert only_error(kernel.run("1/0"))["ename"] == "ZeroDivisionError"
        assert only_error(kernel.run("1 +"))["ename"] == "SyntaxError"


def test_nested_cells_and_shown_tracebacks_are_no_error_of_the_cell(kernel):
    cell = kernel.run("r = get_ipython().run_cell('1/0')\nprint('on')")
    assert cell.status == "ok" and cell.stdout == "on\n" and "ZeroDivisionError" in cell.stderr
    kernel.run("1/0")
    cell = kernel.run("%tb")
    assert cell.status == "ok" and "ZeroDivisionError" in cell.stdout + cell.stderr


def test_warnings_and_logging(kernel):
    text = kernel.run("import warnings\nwarnings.warn('careful')").stderr
    assert "UserWarning: careful" in text and "ipython-input" in text
    kernel.run("import logging\nlogging.basicConfig(level='INFO')")
    assert kernel.run("logging.info('logged')").stderr == "INFO:root:logged\n"


# Output


def test_order_of_stdout_stderr_and_frames(kernel):
    cell = kernel.run(
        "import sys\nfor i in range(3):\n"
        "    print('o', i)\n    print('e', i, file=sys.stderr)\n    display(i)\n    sys.stdout.write('p')"
    )
    assert cell.order == [
        *("o 0\n", "e 0\n", "display"),
        *("po 1\n", "e 1\n", "display"),
        *("po 2\n", "e 2\n", "display", "p", "done"),
    ]


def test_order_with_c_code_and_children(kernel):
    cell = kernel.run(
        "import ctypes, os, subprocess\nlibc = ctypes.CDLL(None)\n"
        "print('python')\nos.write(1, b'raw\\n')\nprint('partial', end='')\nsubprocess.run(['echo', ' child'])\n"
        "libc.printf(b'c\\n')\ndisplay(1)\nos.system('echo system')\nprint('end')\nlibc.printf(b'late c\\n');"
    )
    assert cell.order == ["python\nraw\npartial child\nc\n", "display", "system\nend\nlate c\n", "done"]


def test_thousands_of_cells_lose_nothing(kernel):
    kernel.run("import os, sys, ctypes\nlibc = ctypes.CDLL(None)")
    code = (
        "print('p', {0})\nos.write(1, b'w {0}\\n')\nlibc.puts(b'c {0}')\nlibc.fflush(None)\n"
        "print('e', {0}, file=sys.stderr)\ndisplay({0})\n{0}"
    )
    for number in range(1000):
        assert kernel.run(code.format(number)).order == [
            *(f"p {number}\nw {number}\nc {number}\n", f"e {number}\n", "display", "result", "done"),
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
    assert kernel.run("sys.stdout.encoding, sys.stdout.errors").result == "('utf-8', 'backslashreplace')"
    assert kernel.run("sys.stdout.fileno(), sys.stderr.fileno(), sys.stdout.isatty()").result == "(1, 2, False)"
    assert kernel.run("sys.stdout.name, sys.stdout.mode, sys.stdout.buffer.mode").result == "('<stdout>', 'w', 'wb')"
    assert kernel.run("sys.__stdout__ is sys.stdout, sys.stdout.closed, sys.stdout.writable()").result == (
        "(True, False, True)"
    )
    assert kernel.run("isinstance(sys.stdout, io.TextIOWrapper), sys.stdout.buffer.fileno()").result == "(True, 1)"
    cell = kernel.run(
        "print('a', end='')\nsys.stdout.buffer.write(b'\\xc3\\xa4')\nprint('b', end='')\n"
        "sys.stdout.buffer.write(memoryview(b'c'))\nsys.stdout.buffer.flush()\nsys.stdout.writelines(['d', 'e'])"
    )
    assert cell.stdout == "aäbcde"
    cell = kernel.run("with contextlib.redirect_stdout(io.StringIO()) as f: print('in')\nprint('out')\nf.getvalue()")
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
    """As scripts do to have another encoding. Their text is not lost, and the kernel's own streams stay."""
    for stream in ("sys.stdout.detach()", "sys.stdout.buffer"):
        cell = kernel.run(f"import io, sys\nsys.stdout = io.TextIOWrapper({stream}, encoding='utf-8')\nprint('ä')\n1")
        assert cell.stdout == "ä\n" and cell.result == "1"
        assert kernel.run("print('b', end='')").stdout == "b"
        assert kernel.run("sys.stdout = sys.__stdout__\nprint('c')").stdout == "c\n"
        cell = kernel.run("_ = sys.stdout.buffer.write(b'd')\nprint('e')")
        assert cell.stdout == "de\n", cell.events


def test_streams_that_cannot_be_used_are_replaced(kernel):
    for code in (
        "import io, sys\nsys.stdout = io.TextIOWrapper(io.BytesIO())\ns = sys.stdout.detach()",
        "class Proxy:\n    def __getattr__(self, name): raise RuntimeError(name)\nsys.stdout = sys.stderr = Proxy()",
    ):
        kernel.run(code)
        assert kernel.run("print('out')\nprint('err', file=sys.stderr)").order == ["out\n", "err\n", "done"], code


def test_a_cell_ends_whatever_became_of_the_interpreters_tables(kernel):
    kernel.run("import sys\nkept = sys.path_importer_cache\nsys.path_importer_cache = None")
    assert kernel.run("sys.path_importer_cache = kept\n1").result == "1"


def test_printing_to_a_closed_descriptor_is_an_error(kernel):
    assert only_error(kernel.run("import os\nos.close(1)\nprint('x', flush=True)"))["ename"] == "OSError"
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
        "def late():\n    go.wait()\n    print('late')\n    display('late')\nt = threading.Thread(target=late)\nt.start()"
    )
    # Not by a timer, which may run out while the cell is still running.
    kernel.run("import signal\nsignal.signal(signal.SIGUSR1, lambda *_: go.set())")
    kernel.signal(signal.SIGUSR1)
    frame = kernel.wait_for("display")
    assert frame["cell"] == 0 and ("stdout", b"late\n") in kernel.reader.events


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


# Forks


def test_a_forked_child_prints_and_ends(kernel):
    cell = kernel.run(
        "import os\nprint('before', end='')\npid = os.fork()\n"
        "if pid: print(' parent', os.waitpid(pid, 0)[1])\nelse: print(' child'); display('shown')"
    )
    assert cell.stdout == "before child\n'shown'\n parent 0\n" and cell.displays == []
    cell = kernel.run("pid = os.fork()\nif not pid: 1/0\nprint(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))")
    assert cell.stdout == "1\n" and "ZeroDivisionError" in cell.stderr and cell.status == "ok"
    cell = kernel.run("pid = os.fork()\nif not pid: exit(7)\nprint(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))")
    assert cell.stdout == "7\n" and cell.stderr == ""
    cell = kernel.run("pid = os.fork()\nif not pid: exit('why')\nprint(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))")
    assert cell.stdout == "1\n" and cell.stderr == "why\n"
    cell = kernel.run(
        "import asyncio\nawait asyncio.sleep(0)\npid = os.fork()\n"
        "if pid: print('p', os.waitpid(pid, 0)[1])\nelse: print('c')"
    )
    assert cell.stdout == "c\np 0\n"


def test_a_grandchild_does_not_close_the_childs_files(kernel):
    """A child's files may have the numbers that the kernel's private descriptors had."""
    cell = kernel.run(
        "import os\n"
        "if not os.fork():\n"
        "    fd = os.open('/dev/null', os.O_RDONLY)\n"
        "    for number in range(1000, 1024): os.dup2(fd, number)\n"
        "    pid = os.fork()\n"
        "    if pid: os.waitpid(pid, 0)\n"
        "    else:\n"
        "        for number in range(1000, 1024): os.fstat(number)\n"
        "        print('open')\n"
        "else: os.wait()"
    )
    assert cell.stdout == "open\n", cell.events


def test_no_warning_of_forks_with_threads(kernel):
    cell = kernel.run(
        "import os, time, warnings\nwarnings.simplefilter('always')\n"
        "for i in range(20):\n    print('x', end='')\n    time.sleep(0.001)\n    pid = os.fork()\n"
        "    if not pid: os._exit(0)\n    os.waitpid(pid, 0)"
    )
    assert cell.stderr == "" and cell.stdout == "x" * 20


def test_multiprocessing(kernel):
    kernel.run(
        "import multiprocessing as mp, os\ndef square(x):\n    print('in', x)\n    return x * x\nclass Point:\n    pass"
    )
    cell = kernel.run("with mp.get_context('fork').Pool(2) as pool: print(pool.map(square, [1, 2, 3]))")
    assert cell.stdout.endswith("[1, 4, 9]\n") and cell.stdout.count("in ") == 3 and cell.stderr == ""
    for method in ("spawn", "forkserver"):
        cell = kernel.run(f"with mp.get_context({method!r}).Pool(1) as pool: print(pool.map(abs, [-1]))")
        assert cell.stdout == "[1]\n", cell.events
    assert kernel.run("import pickle\ntype(pickle.loads(pickle.dumps(Point()))) is Point").result == "True"
    cell = kernel.run(
        "from concurrent.futures import ProcessPoolExecutor\n"
        "with ProcessPoolExecutor(1, mp_context=mp.get_context('fork')) as p: print(p.submit(square, 4).result())"
    )
    assert "16" in cell.stdout


# Interrupts


def interrupted(kernel, code, wait_for=b"started"):
    kernel.execute(code)
    kernel.wait_for_text(wait_for)
    kernel.interrupt()
    cell = kernel.finish()
    assert cell.status == "interrupted", cell.events
    (error,) = cell.errors
    assert "ipybox_kernel" not in error["traceback"]
    return error


@pytest.mark.parametrize(
    "code",
    [
        "import time\nprint('started')\ntime.sleep(1000)",
        "print('started')\nwhile True: pass",
        "import subprocess\nprint('started')\nsubprocess.run(['sleep', '1000'])",
        "!echo started; sleep 1000",
        "print('started')\nx = !sleep 1000",
        "%%bash\necho started\nsleep 1000 & wait",
        "import threading\nprint('started')\nthreading.Event().wait()",
        "print('started')\nwhile True: print('y' * 1000)",
        "import asyncio\nawait asyncio.sleep(0)\nprint('started')\nwhile True: pass",
    ],
)
def test_interrupt_of_a_sync_cell(kernel, code):
    kernel.run("x = 5")
    assert interrupted(kernel, code)["ename"] == "KeyboardInterrupt"
    assert kernel.run("print('next')\nx").stdout == "next\n"


def test_interrupt_of_an_async_cell(kernel):
    error = interrupted(
        kernel,
        "import asyncio\nasyncio.get_running_loop().call_later(0.01, print, 'started')\nawait asyncio.sleep(1000)",
    )
    assert error["ename"] == "CancelledError" and "await asyncio.sleep(1000)" in error["traceback"]
    cell = kernel.run("try:\n    await asyncio.sleep(0)\nfinally: print('clean')")
    assert cell.stdout == "clean\n"


def test_interrupt_when_a_task_holds_the_loop(kernel):
    kernel.execute(
        "import asyncio\nasync def hog():\n    print('started')\n    while True: pass\n"
        "t = asyncio.create_task(hog())\nawait asyncio.sleep(1000)"
    )
    kernel.wait_for_text(b"started")
    kernel.interrupt()
    time.sleep(0.3)  # two signals that wait to be taken are one
    kernel.interrupt()
    assert kernel.finish().status == "interrupted"
    assert kernel.run("1").result == "1"


def test_interrupt_ends_what_a_command_started(kernel):
    interrupted(kernel, "%%bash\necho started\nsleep 4242 &\nsleep 4243")
    assert kernel.run("!ps -eo args | grep -c '^sleep 424'\n").stdout == "0\n"


def test_interrupt_of_a_command_that_ignores_it(kernel):
    interrupted(kernel, "!trap '' INT; echo started; sleep 1000; sleep 1000")


def test_repetition_of_an_interrupt(kernel):
    """It counts where the interrupt had no effect, and leaves a cell alone that is cleaning up."""
    kernel.execute("print('started')\nwhile True: pass")
    kernel.wait_for_text(b"started")
    kernel.repeat_interrupt()
    assert kernel.finish().status == "interrupted"
    kernel.execute(
        "import os, time\ntry:\n    print('started')\n    time.sleep(1000)\n"
        "finally:\n    print('cleaning')\n    time.sleep(0.2)\n    print('clean')"
    )
    kernel.wait_for_text(b"started")
    kernel.interrupt()
    kernel.wait_for_text(b"cleaning")
    for _ in range(5):
        kernel.repeat_interrupt()
    cell = kernel.finish()
    assert cell.status == "interrupted" and cell.stdout == "started\ncleaning\nclean\n"


def test_interrupt_of_an_idle_kernel_does_nothing(kernel):
    kernel.run("x = 1")
    for _ in range(5):
        kernel.interrupt()
    assert kernel.run("x").result == "1"


def test_interrupts_at_any_moment_lose_no_cell(kernel):
    kernel.forked()
    for number in range(200):
        kernel.execute(f"print({number}, 'a' * 100)\ndisplay({number})\nfor _ in range({number * 20}): pass")
        kernel.interrupt()
        if number % 3 == 0:
            kernel.interrupt()
        assert kernel.finish().status in ("ok", "interrupted", "error")
    assert kernel.run("'fine'").result == "'fine'"


INTERRUPT_AT = """
import signal, sys
def interrupt_at(number, event_of):
    count = 0
    def on_event(frame, event, arg):
        nonlocal count
        if event in ("call", "c_return") and event_of(frame, event):
            count += 1
            if count == number:
                sys.setprofile(None)
                signal.raise_signal(signal.SIGINT)
    sys.setprofile(on_event)
class Begun:  # the cell after this one has
    def __init__(self): self.n = 0
    def __call__(self, frame, event):
        self.n += frame.f_code.co_name == "enter" and frame.f_code.co_filename.endswith("interrupts.py")
        return self.n == 1
"""


def test_an_interrupt_while_a_magic_is_loaded(kernel):
    """IPython loads its magics when a cell first looks as if it used one, and must come to the end of it."""
    kernel.run(INTERRUPT_AT + "interrupt_at(1, lambda frame, event: frame.f_code.co_name == 'load_lazy')")
    kernel.run("time.sleep(0)")  # there is a %time
    kernel.run("import sys, time; sys.setprofile(None)")  # in an IPython that loads them at the start
    cell = kernel.run("time.sleep(0)")
    assert cell.status == "ok", cell.events


@pytest.mark.parametrize(
    "code",
    [
        "while True: pass",
        "while True: x = [1, (2, 'a')]; display(x)",
        "import asyncio\nwhile True: await asyncio.sleep(0.0001)",
    ],
)
def test_an_interrupt_at_any_call_ends_the_cell(kernel, code):
    kernel.run(INTERRUPT_AT)
    kernel.forked()
    for number in range(1, 500, 7):
        kernel.run(f"interrupt_at({number}, Begun())")
        kernel.execute(code)
        kernel.expect_interrupt()
        cell = kernel.finish()
        assert cell.status == "interrupted" and len(cell.errors) == 1, (number, cell.events)
    assert kernel.run("1").result == "1"


def test_an_interrupt_at_any_call_loses_no_end(kernel):
    kernel.run(INTERRUPT_AT + "import asyncio")
    for number in range(200, 800, 5):
        kernel.run(f"interrupt_at({number}, Begun())")
        cell = kernel.run("await asyncio.sleep(0)")
        assert cell.status in ("ok", "interrupted"), (number, cell.events)
        kernel.run("sys.setprofile(None)")


def test_an_interrupt_in_a_finalizer_is_repeated(kernel):
    kernel.execute(
        "import signal\nclass Thing:\n    def __del__(self): signal.raise_signal(signal.SIGINT)\n"
        "thing = Thing()\ndel thing\nprint('going')\nwhile True: pass"
    )
    kernel.forked()
    kernel.wait_for_text(b"going")
    kernel.repeat_interrupt()
    assert kernel.finish().status == "interrupted"


def test_an_error_in_a_callback_is_not_the_cells(kernel):
    kernel.run("get_ipython().events.register('pre_execute', lambda: 1 / 0)")
    cell = kernel.run("print('on')\nx = 5")
    assert cell.status == "ok" and not cell.errors and "ZeroDivisionError" in cell.stderr
    cell = kernel.run("[][1]")
    assert cell.status == "error" and cell.errors[0]["ename"] == "IndexError"


def test_interrupt_while_nobody_reads_the_output(kernel):
    """A kernel that waits for a slow core can be interrupted, and no byte is lost or doubled."""
    kernel.execute("import sys\nfor i in range(10**9): print(i)")
    kernel.wait_for_bytes(kernel.pipes[0], 1 << 15)
    kernel.interrupt()
    cell = kernel.finish()
    assert cell.status == "interrupted"
    numbers = cell.stdout.split()
    assert numbers == [str(i) for i in range(len(numbers))] and len(numbers) > 1000
    kernel.execute("for i in range(10**9): display('x' * 10000)")
    kernel.wait_for_bytes(kernel.wire.fileno(), 1 << 15)
    kernel.interrupt()
    cell = kernel.finish()
    assert cell.status == "interrupted" and all(len(d["data"]["text/plain"]) == 10002 for d in cell.displays)


def test_a_replaced_handler_lasts_one_cell(kernel):
    kernel.run("import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)")
    interrupted(kernel, "import time\nprint('started')\ntime.sleep(1000)")


def test_caught_interrupts_leave_the_cell_to_go_on(kernel):
    kernel.execute(
        "import time\ntry:\n    print('started')\n    time.sleep(1000)\nexcept KeyboardInterrupt: print('caught')"
    )
    kernel.wait_for_text(b"started")
    kernel.interrupt()
    cell = kernel.finish()
    assert cell.status == "ok" and cell.stdout == "started\ncaught\n"


def test_what_a_signal_handler_raises_between_cells_ends_nothing(kernel):
    """An alarm that comes after the cell that it was for."""
    kernel.run(
        "import os, signal, time\ndef expire(*_): raise TimeoutError('too late')\n"
        "signal.signal(signal.SIGALRM, expire)\nx = 1"
    )
    for _ in range(3):
        kernel.signal(signal.SIGALRM)
        kernel.wait_for_text(b"TimeoutError: too late\n")
        kernel.take_events()
    assert kernel.run("x").result == "1"
    assert only_error(kernel.run("os.kill(os.getpid(), signal.SIGALRM)"))["ename"] == "TimeoutError"


# Requests


def request(kernel, method, **params):
    kernel.send_frame(REQUEST, {"id": method, "method": method, "params": params})
    return kernel.wait_for("reply")


def test_requests(kernel):
    kernel.run("some_variable = {'key_one': 1}")
    reply = request(kernel, "complete", code="some_va", cursor_pos=7)
    assert reply["id"] == "complete" and reply["result"]["matches"] == ["some_variable"]
    assert (reply["result"]["cursor_start"], reply["result"]["cursor_end"]) == (0, 7)
    kernel.take_events()
    assert "Signature: len(obj" in request(kernel, "inspect", code="len")["result"]["data"]["text/plain"]
    kernel.take_events()
    assert request(kernel, "inspect", code="no_such_name")["result"]["found"] is False
    kernel.take_events()
    assert request(kernel, "is_complete", code="for x in y:")["result"] == {"status": "incomplete", "indent": "    "}
    kernel.take_events()
    assert "no method" in request(kernel, "nonsense")["error"]


def test_requests_are_answered_while_an_async_cell_waits(kernel):
    kernel.execute("import asyncio\nlocal_name = 1\nprint('started')\nawait asyncio.sleep(1000)")
    kernel.wait_for_text(b"started")
    assert request(kernel, "complete", code="local_na")["result"]["matches"] == ["local_name"]
    kernel.interrupt()
    kernel.finish()


def test_history_kernel_info_and_comm_info(kernel):
    kernel.run("first = 1")
    kernel.run("first")
    kernel.run("second = %who_ls")
    kernel.run("hidden = 1", store_history=False)

    def history(**params):
        result = request(kernel, "history", **params)["result"]["history"]
        kernel.take_events()
        return result

    assert history(hist_access_type="tail", n=2) == [[0, 2, "first"], [0, 3, "second = %who_ls"]]
    assert history(hist_access_type="range", start=1, stop=2) == [[0, 1, "first = 1"]]
    assert history(hist_access_type="search", pattern="fi*", output=True) == [
        [0, 1, ["first = 1", None]],
        [0, 2, ["first", "1"]],
    ]
    assert history(hist_access_type="tail", n=1, raw=False)[0][2].startswith("second = get_ipython()")
    assert "one of tail, range" in request(kernel, "history", hist_access_type="x")["error"]
    kernel.take_events()
    info = request(kernel, "kernel_info")["result"]
    assert info["language_info"]["name"] == "python" and info["language_info"]["file_extension"] == ".py"
    kernel.take_events()
    assert request(kernel, "comm_info")["result"] == {"comms": {}}


def test_user_expressions(kernel):
    cell = kernel.run("a = 5", user_expressions={"double": "2 * a", "bad": "1 / 0", "large": "'x' * 10**8"})
    values = cell.done["user_expressions"]
    assert values["double"] == {"status": "ok", "data": {"text/plain": "10"}, "metadata": {}}
    assert values["bad"]["ename"] == "ZeroDivisionError" and "too large" in values["large"]["evalue"]
    assert kernel.run("a", user_expressions={}).done.get("user_expressions") is None
    assert kernel.run("1 / 0", user_expressions={"a": "a"}).done.get("user_expressions") is None
    kernel.execute("print('started')", user_expressions={"slow": "__import__('time').sleep(1000)"})
    kernel.wait_for_text(b"started")
    kernel.interrupt()
    assert kernel.finish().status == "interrupted"


def test_frames_hold_only_json(kernel):
    cell = kernel.run("display({'application/json': 2**70, 'text/plain': 'x'}, raw=True)")
    assert cell.displays[0]["data"]["application/json"] == 2**70
    assert json.dumps(cell.displays)
