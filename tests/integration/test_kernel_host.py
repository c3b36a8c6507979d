# SPDX-License-Identifier: Apache-2.0
"""The kernel host (python/ipybox/kernel_host), driven as the core drives it: what cells do.

Their output is in test_kernel_output.py, interrupts in test_kernel_interrupts.py, requests in
test_kernel_requests.py; the forkserver, processes and deaths in test_forkserver.py.
"""

from __future__ import annotations

import os
import re
import sys

import pytest
from kernel_driver import only_error

# Cells


def test_results_and_state(kernel):
    assert kernel.run("x = 40\nx + 2").result == "42"
    assert kernel.run("print('a')\nx").order == ["a\n", "result", "done"]
    assert kernel.run("_ + 1").result == "41"
    assert (
        kernel.run("Out[1], In[1], _i2, _2").result
        == "(42, 'x = 40\\nx + 2', \"print('a')\\nx\", 40)"
    )
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
    assert (
        kernel.run(
            "import sys, linecache; hasattr(sys, 'last_value'), len(linecache.cache)"
        ).result[:6]
        == "(False"
    )


def test_fresh_namespace(kernel):
    assert (
        kernel.run("[len(In), Out, _, __, ___, _i, _ii, _i1 == In[1]]").result
        == "[2, {}, '', '', '', '', '', True]"
    )
    assert kernel.run("__name__").result == "'__main__'"


@pytest.mark.parametrize(
    "value",
    [
        "1",
        "True",
        "1.5",
        "'a\\n'",
        "b'x'",
        "[1, 'a']",
        "{'a': [1]}",
        "(1,)",
        "{1}",
        "1j",
        "2**70",
        "list(range(60))",
    ],
)
def test_plain_results_are_as_ipython_shows_them(kernel, value):
    shown = kernel.run(value).result
    assert (
        shown
        == kernel.run(
            f"print(get_ipython().display_formatter.format({value})[0]['text/plain'])"
        ).stdout[:-1]
    )


def test_own_formatters_count_for_plain_types(kernel):
    kernel.run(
        "html = get_ipython().display_formatter.formatters['text/html']\n"
        "html.for_type(int, lambda x: '<b>')"
    )
    assert kernel.run("1").results[0]["data"] == {"text/html": "<b>", "text/plain": "1"}
    kernel.run(
        "get_ipython().display_formatter.formatters['text/plain'].for_type(str, lambda s, p, "
        "c: p.text('S'))"
    )
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
    late = {"cell": 1, "name": "stdout", "text": "worked\n"}
    if ("stream", late) not in cell.events:
        assert kernel.wait_for("stream") == late


def test_a_task_that_raises_through_the_loop_ends_nothing(kernel):
    kernel.run(
        "import asyncio, sys\nasync def leave():\n    sys.exit(3)\n"
        "task = asyncio.create_task(leave())"
    )
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
    assert b"".join(data for name, data in events if name == "stdout").split() == [
        b"%d" % i for i in range(20)
    ]


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
    # Text that other front ends put at the next prompt is shown. Commands that need a terminal say
    # so.
    assert (
        kernel.run(f"%load {script}").stdout
        == "# %load " + str(script) + "\ny = 5\nprint(__name__)\n"
    )
    assert "no terminal" in only_error(kernel.run(f"%edit {script}"))["evalue"]
    assert kernel.run("%gui asyncio").order == ["done"]


def test_shell_commands(kernel):
    assert kernel.run("!echo out; echo err >&2").order in (
        ["out\n", "err\n", "done"],
        ["err\n", "out\n", "done"],
    )
    assert kernel.run("x = !echo a; echo b\nx").result == "['a', 'b']"
    assert kernel.run("name = 'w'\n!echo $name {name}").stdout == "w w\n"
    assert kernel.run("!exit 3\n_exit_code").result == "3"
    assert kernel.run("!cat").stdout == ""
    assert (
        kernel.run("print('before', end='')\n!echo -n ' in '\nprint('after')").stdout
        == "before in after\n"
    )
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
    cell = kernel.run(
        f"!mkdir {overlay} && echo 'x = 5' > {overlay}/new_module.py\nimport new_module\n"
        f"new_module.x"
    )
    assert cell.result == "5"
    kernel.run(
        f"import subprocess\nsubprocess.run(['sh', '-c', 'echo x=6 > {overlay}/second_module.py'])"
    )
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
        "        wheel.writestr('tiny-1.dist-info/METADATA', 'Metadata-Version: 2.1\\nName: "
        "tiny\\nVersion: 1\\n')\n"
        "        wheel.writestr('tiny-1.dist-info/WHEEL',\n"
        "            'Wheel-Version: 1.0\\nGenerator: x\\nRoot-Is-Purelib: true\\nTag: "
        "py3-none-any\\n')\n"
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


# Errors


def test_traceback_shows_the_users_frames(kernel):
    kernel.run("def f(x):\n    y = x\n    return 1 / y")
    text = only_error(kernel.run("f(0)"))["traceback"]
    assert "----> 1 f(0)" in text and "in f(x)" in text and "----> 3     return 1 / y" in text
    assert len(re.findall(r"(?:Cell|Input) In ?\[\d\]", text)) == 2
    assert "interactiveshell" not in text and "asyncio" not in text


def test_traceback_hides_what_wants_to_be(kernel):
    kernel.run(
        "def hidden():\n    __tracebackhide__ = True\n    return 1 / 0\ndef f():\n"
        "    return hidden()"
    )
    text = only_error(kernel.run("f()"))["traceback"]
    assert "in f()" in text and "in hidden()" not in text and "ZeroDivisionError" in text
    # IPython 8 marks the frame of a cell by a text, and relies on it.
    kernel.run("def marked():\n    __tracebackhide__ = '__ipython_bottom__'\n    return 1 / 0")
    assert "in marked()" in only_error(kernel.run("marked()"))["traceback"]


def test_traceback_of_an_async_cell(kernel):
    text = only_error(kernel.run("import asyncio\nasync def f():\n    1/0\nawait f()"))["traceback"]
    assert "----> 4 await f()" in text and "in f()" in text
    assert "interactiveshell" not in text and "asyncio/" not in text


def test_chained_exceptions(kernel):
    text = only_error(
        kernel.run("try:\n    1/0\nexcept ZeroDivisionError as e:\n    raise KeyError('k') from e")
    )
    assert "direct cause" in text["traceback"] and text["ename"] == "KeyError"


def test_syntax_errors(kernel):
    error = only_error(kernel.run("a = 1\nb = = 2"))
    assert (
        error["ename"] == "SyntaxError"
        and "b = = 2" in error["traceback"]
        and "^" in error["traceback"]
    )
    assert only_error(kernel.run("  x = 1\n y = 2"))["ename"] == "IndentationError"
    assert only_error(kernel.run("return 1"))["ename"] == "SyntaxError"
    assert only_error(kernel.run("eval('1 +')"))["ename"] == "SyntaxError"
    assert only_error(kernel.run("x = '\ud800'"))["ename"] in (
        "UnicodeEncodeError",
        "SyntaxError",
        "ValueError",
    )
    assert only_error(kernel.run("x = '\0'"))["ename"] in ("SyntaxError", "ValueError")
    assert kernel.run("1").result == "1"


def test_exceptions_that_cannot_be_shown(kernel):
    error = only_error(
        kernel.run("class E(Exception):\n    def __str__(self): raise TypeError('no')\nraise E")
    )
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
    for code, evalue in (
        ("exit()", ""),
        ("quit", ""),
        ("import sys; sys.exit(3)", "3"),
        ("exit(4)", "4"),
    ):
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


# Forks


def test_a_forked_child_prints_and_ends(kernel):
    cell = kernel.run(
        "import os\nprint('before', end='')\npid = os.fork()\n"
        "if pid: print(' parent', os.waitpid(pid, 0)[1])\nelse: print(' child'); display('shown')"
    )
    assert cell.stdout == "before child\n'shown'\n parent 0\n" and cell.displays == []
    cell = kernel.run(
        "pid = os.fork()\nif not pid: 1/0\nprint(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))"
    )
    assert cell.stdout == "1\n" and "ZeroDivisionError" in cell.stderr and cell.status == "ok"
    cell = kernel.run(
        "pid = os.fork()\nif not pid: exit(7)\n"
        "print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))"
    )
    assert cell.stdout == "7\n" and cell.stderr == ""
    cell = kernel.run(
        "pid = os.fork()\nif not pid: exit('why')\n"
        "print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))"
    )
    assert cell.stdout == "1\n" and cell.stderr == "why\n"
    cell = kernel.run(
        "import asyncio\nawait asyncio.sleep(0)\npid = os.fork()\n"
        "if pid: print('p', os.waitpid(pid, 0)[1])\nelse: print('c')"
    )
    assert cell.stdout == "c\np 0\n"


def test_a_grandchild_does_not_close_the_childs_files(kernel):
    """A child's files may have the numbers of the kernel's private descriptors."""
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


def test_multiprocessing_of_scripts(kernel, tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "import multiprocessing as mp\ndef square(x): return x * x\n"
        "if __name__ == '__main__':\n"
        "    with mp.get_context('spawn').Pool(1) as pool: print(pool.map(square, [3]))"
    )
    for _ in range(2):
        assert kernel.run(f"%run {script}").stdout == "[9]\n"


def test_multiprocessing(kernel):
    kernel.run(
        "import multiprocessing as mp, os\ndef square(x):\n    print('in', x)\n"
        "    return x * x\nclass Point:\n    pass"
    )
    cell = kernel.run("with mp.Pool(2) as pool: print(pool.map(square, [1, 2, 3]))")
    assert (
        cell.stdout.endswith("[1, 4, 9]\n") and cell.stdout.count("in ") == 3 and cell.stderr == ""
    )
    for method in ("spawn", "forkserver"):
        cell = kernel.run(
            f"with mp.get_context({method!r}).Pool(1) as pool: print(pool.map(abs, [-1]))"
        )
        assert cell.stdout == "[1]\n", cell.events
    assert (
        kernel.run("import pickle\ntype(pickle.loads(pickle.dumps(Point()))) is Point").result
        == "True"
    )
    cell = kernel.run(
        "from concurrent.futures import ProcessPoolExecutor\n"
        "with ProcessPoolExecutor(1) as p: print(p.submit(square, 4).result())"
    )
    assert "16" in cell.stdout
