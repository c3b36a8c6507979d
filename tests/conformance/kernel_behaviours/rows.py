# SPDX-License-Identifier: Apache-2.0
"""What people do in cells, and what two kernels do then.

Each row is a function that acts on a kernel and returns what it saw, as Markdown on one line. Rows
of the same group share a kernel, in the order in which they are here, unless they say `alone`.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from dataclasses import dataclass

from front import Front, quote


@dataclass
class Row:
    """One behaviour.

    Attributes:
        what: What is done, as Markdown.
        why: Why the kernels differ; None if they do not.
        alone: Whether it gets a kernel of its own.
    """

    what: str
    why: str | None
    alone: bool
    observe: Callable[[Front], str]


ROWS: dict[str, Row] = {}


def row(what: str, why: str | None = None, alone: bool = False) -> Callable[..., None]:
    def add(observe: Callable[[Front], str]) -> None:
        ROWS[observe.__name__] = Row(what, why, alone, observe)

    return add


def cell(name: str, what: str, code: str, why: str | None = None) -> None:
    """A row that is what the user sees of one cell."""
    ROWS[name] = Row(what, why, False, lambda front: front.run(code).describe())


# Input


@row("`input('Name? ')`, and the user types `Ann`")
def input_allowed(front: Front) -> str:
    seen = front.take(front.send("print(input('Name? '))", allow_stdin=True), ("Ann",))
    (request,) = seen.contents("input_request")
    return f"asked {quote(request['prompt'])}, stdout {quote(seen.stdout)}"


@row("`getpass.getpass()`: is the front end asked to hide what is typed?")
def getpass_hidden(front: Front) -> str:
    code = "import getpass\nprint(len(getpass.getpass()))"
    seen = front.take(front.send(code, allow_stdin=True), ("secret",))
    (request,) = seen.contents("input_request")
    return f"`password` {json.dumps(request['password'])}, stdout {quote(seen.stdout)}"


cell(
    "input_refused",
    "`input()` where the front end cannot ask, as in nbclient",
    "input()",
)


@row(
    "`input()` in a thread",
    "In ipybox only the main thread can ask, since it is the one that talks to the front end.",
)
def input_in_thread(front: Front) -> str:
    code = (
        "import threading\n"
        "def ask():\n"
        "    try:\n"
        "        print('got', input('Name? '))\n"
        "    except Exception as error:\n"
        "        print(type(error).__name__)\n"
        "thread = threading.Thread(target=ask)\n"
        "thread.start()\n"
        "thread.join()"
    )
    seen = front.take(front.send(code, allow_stdin=True), ("Ann",))
    return f"stdout {quote(seen.stdout)}"


cell("stdin_read", "`sys.stdin.read()`", "import sys\nsys.stdin.read()")

# Output


@row(
    "stdout, stderr and stdout again, without a flush: is the order kept?",
    "ipykernel collects what is printed, for each stream. ipybox keeps the order.",
)
def order_of_streams(front: Front) -> str:
    code = "import sys\nfor i in range(3):\n    print(i)\n    print(-i, file=sys.stderr)"
    wanted = ["stdout", "stderr"] * 3
    for _ in range(5):
        streams = front.run(code).contents("stream")
        # A text may come in several messages.
        names = [name for name, _ in itertools.groupby(each["name"] for each in streams)]
        if names != wanted:
            return "no: the texts of stdout come together"
    return "yes"


cell(
    "output_of_c",
    "output of C code: `ctypes.CDLL(None).puts(b'text')` and `fflush`",
    "import ctypes\nlibc = ctypes.CDLL(None)\n_ = libc.puts(b'text')\n_ = libc.fflush(None)",
)
cell(
    "bytes_of_stdout",
    "`sys.stdout.buffer.write(b'text')`",
    "import sys\n_ = sys.stdout.buffer.write(b'text\\n')\nsys.stdout.flush()",
    "Programs that write bytes work in ipybox.",
)
cell(
    "invalid_bytes",
    "bytes that are not UTF-8: `os.write(1, b'a\\xffb')`",
    "import os\n_ = os.write(1, b'a\\xffb\\n')",
)


@row(
    "`print('a\\ud800b')`, a lone surrogate",
    "ipykernel cannot encode it as UTF-8. ipybox shows it as an escape.",
)
def surrogate(front: Front) -> str:
    seen = front.run("print('a\\ud800b')")
    return seen.describe() if seen.stdout else "the text is lost, and an error is logged"


@row(
    "`print('a\\0b')`",
    "Texts of ipybox have no NUL, since C strings end there. U+2400 shows where it was.",
)
def nul(front: Front) -> str:
    return f"the text is `{json.dumps(front.run('print(chr(97) + chr(0) + chr(98))').stdout)}`"


@row("a print of 5 million characters")
def big_print(front: Front) -> str:
    seen = front.run("print('x' * 5_000_000)")
    return f"{len(seen.stdout):,} characters arrive"


@row("a value whose text has 5 million characters")
def big_result(front: Front) -> str:
    return f"{len(front.run('chr(120) * 5_000_000').result or ''):,} characters arrive"


cell("isatty", "`sys.stdout.isatty()`", "import sys\nsys.stdout.isatty()")
cell(
    "encodings",
    "encodings of `sys.stdout`, of files",
    "import locale, sys\nsys.stdout.encoding.lower(), open('/dev/null').encoding.lower()",
)
cell(
    "fileno",
    "`sys.stdout.fileno()`, `sys.stderr.fileno()`",
    "import sys\n[type(each.fileno()).__name__ for each in (sys.stdout, sys.stderr)]",
)
cell("print_end", "`print('a', end='')`, then a value", "print('a', end='')\n1")
cell(
    "warning",
    "`warnings.warn('old', DeprecationWarning)` in a cell",
    "import warnings\nwarnings.simplefilter('always')\n"
    "import re as _re\nwith warnings.catch_warnings(record=True) as seen:\n"
    "    warnings.resetwarnings()\n    warnings.simplefilter('default')\n"
    "    warnings.warn('old', DeprecationWarning)\n"
    "[str(each.message) for each in seen]",
)


@row("`logging.warning('text')` with logging's defaults: where is it shown?")
def logging_warning(front: Front) -> str:
    seen = front.run("import logging\nlogging.warning('text')")
    return seen.describe()


# Errors


@row("`1 / 0`: the error, and the traceback's last line")
def error_plain(front: Front) -> str:
    seen = front.run("1 / 0")
    error = seen.contents("error")[0]
    last = quote(error["traceback"][-1].rpartition("\n")[2])
    return f"{error['ename']}, reply {seen.reply['status']}, {last}"


@row("a traceback has colours (ANSI)")
def error_colours(front: Front) -> str:
    return "yes" if "\x1b[" in front.run("1 / 0").traceback else "no"


@row("a traceback with two frames: the number of texts in `traceback`")
def error_frames(front: Front) -> str:
    code = "def f():\n    1 / 0\nf()"
    return str(len(front.run(code).contents("error")[0]["traceback"]))


@row("a SyntaxError: how many stack frames are shown")
def error_syntax(front: Front) -> str:
    seen = front.run("x = = 1")
    return f"{seen.error}, {seen.traceback.count('File ')} frames"


cell("error_empty", "`raise ValueError`", "raise ValueError")
cell(
    "error_in_repr",
    "a value whose `__repr__` raises",
    "class Bad:\n    def __repr__(self):\n        raise ValueError('bad repr')\nBad()",
)
cell(
    "custom_handler",
    "a handler of `set_custom_exc` that prints",
    "def handle(self, kind, value, tb, tb_offset=None):\n    print('handled')\n"
    "get_ipython().set_custom_exc((KeyError,), handle)\nraise KeyError('x')",
)


@row(
    "`%tb` after an error: the kind of message, and the reply",
    "The cell did not fail, so there is no error.",
)
def magic_tb(front: Front) -> str:
    front.run("1 / 0")
    seen = front.run("%tb")
    kinds = {
        each["content"].get("name", each["msg_type"]) if each["msg_type"] == "stream" else "error"
        for each in seen.messages
    }
    return f"{', '.join(sorted(kinds))}, reply {seen.reply['status']}"


@row("an exception in `__del__`: is it shown?")
def unraisable(front: Front) -> str:
    code = "class Bad:\n    def __del__(self):\n        raise ValueError\nbad = Bad()\ndel bad"
    return "on stderr" if "Exception ignored" in front.run(code).stderr else "no"


@row("executions that wait behind one that fails")
def abort(front: Front) -> str:
    first = front.send("import time\ntime.sleep(1)\n1 / 0")
    second = front.send("1")
    return f"{front.take(first).error}, then {front.take(second).reply['status']}"


@row("the same with `stop_on_error` false")
def no_abort(front: Front) -> str:
    first = front.send("import time\ntime.sleep(1)\n1 / 0", stop_on_error=False)
    second = front.send("1")
    return f"{front.take(first).error}, then {front.take(second).reply['status']}"


# Interrupts


@row("an interrupt of `time.sleep(60)`")
def interrupt_sleep(front: Front) -> str:
    return front.interrupt_at_output("import time\nprint('begun')\ntime.sleep(60)").describe()


@row("an interrupt that the cell handles: `except KeyboardInterrupt: print('saved')`")
def interrupt_handled(front: Front) -> str:
    code = "import time\ntry:\n    print('begun')\n    time.sleep(60)\n"
    code += "except KeyboardInterrupt:\n    print('saved')"
    return front.interrupt_at_output(code).describe()


@row("an interrupt of C code: a regular expression that takes years")
def interrupt_c(front: Front) -> str:
    # Until it sleeps, ipykernel's thread cannot send the text.
    code = "import re, time\nprint('begun', flush=True)\ntime.sleep(1)\n"
    code += "re.match('(a+)+$', 'a' * 60 + 'b')"
    return front.interrupt_at_output(code).describe()


@row(
    "an interrupt of a child process: `!sleep 20`",
    "In ipykernel the terminal of the child is interrupted, and the cell continues.",
)
def interrupt_child(front: Front) -> str:
    seen = front.interrupt_at_output("print('begun', flush=True)\n!sleep 20\nprint('after')")
    return seen.describe()


# await


cell(
    "await_top",
    "`await asyncio.sleep(0, 'value')` at top level",
    "import asyncio\nawait asyncio.sleep(0, 'value')",
)


@row("`asyncio.run(…)` in a cell")
def asyncio_run(front: Front) -> str:
    code = "import asyncio\nasync def f():\n    return 1\n"
    code += "try:\n    print(asyncio.run(f()))\nexcept RuntimeError as error:\n    print(error)"
    return f"stdout {quote(front.run(code).stdout)}"


# The environment


cell(
    "variables",
    "`FORCE_COLOR`, `NO_COLOR`, `TERM`, `PAGER`",
    "import os\n[os.environ.get(n) for n in ('FORCE_COLOR', 'NO_COLOR', 'TERM', 'PAGER')]",
)


@row(
    "a variable of the front end's environment: `os.environ.get('MY_VARIABLE')`",
    "Secrets of the front end are not for cells. Kernels get those named `KERNEL_ENV_…`.",
)
def inherited_variable(front: Front) -> str:
    return front.run("import os\nprint(os.environ.get('MY_VARIABLE'))").stdout.strip()


@row("`os.environ.get('HOME')` is the user's")
def home(front: Front) -> str:
    return front.run(f"import os\nos.environ.get('HOME') == {HOME!r}").describe()


cell("name", "`__name__`, and whether `__file__` exists", "__name__, '__file__' in globals()")
cell(
    "argv",
    "`len(sys.argv)`, and whether `argv[0]` is a file",
    "import os, sys\nlen(sys.argv), os.path.isfile(sys.argv[0])",
    "No command line has started an ipybox kernel: it was forked.",
)
cell("sys_path", "`'' in sys.path`", "import sys\n'' in sys.path")


@row("the working directory is that of the notebook")
def cwd(front: Front) -> str:
    return front.run(f"import os\nos.getcwd() == {WORKSPACE!r}").describe()


@row("`%cd /`: the working directory of the next cell")
def cd(front: Front) -> str:
    front.run("import os\n_before = os.getcwd()\n%cd /")
    seen = front.run("import os\nprint(os.getcwd() == '/')\nos.chdir(_before)")
    return seen.stdout.strip()


@row(
    "a file outside of the working directory: `open('/var/tmp/x', 'w')`",
    "The kernel is in a sandbox. A configuration can allow more.",
)
def write_outside(front: Front) -> str:
    code = "import os\npath = '/var/tmp/ipybox-behaviour'\n"
    code += "try:\n    open(path, 'w').close()\n    os.unlink(path)\n    print('written')\n"
    code += "except OSError as error:\n    print(error.strerror)"
    return quote(front.run(code).stdout)


# Commands


cell("shell", "`!echo text`", "!echo text")
cell(
    "shell_tty",
    "`!test -t 1 && echo tty || echo none`",
    "!test -t 1 && echo tty || echo none",
    "On a terminal programs show pagers, colours and progress bars, and merge stderr into stdout.",
)
cell("shell_status", "`!exit 3`, then `_exit_code`", "!exit 3\n_exit_code")
cell("bash", "`%%bash`", "%%bash\necho one\necho two >&2")


@row(
    "`%pip --version`: ends with a note to restart the kernel",
    "A package can be imported at once, unless an older version was imported.",
)
def pip(front: Front) -> str:
    return "yes" if "restart the kernel" in front.run("%pip --version").stdout else "no"


@row("`%conda --version` without conda")
def conda(front: Front) -> str:
    seen = front.run("%conda --version")
    return seen.error or ("stderr" if seen.stderr else "stdout")


# Processes and signals


@row("`multiprocessing` with fork: output of the child")
def fork_process(front: Front) -> str:
    code = "import multiprocessing as mp\n"
    code += "child = mp.get_context('fork').Process(target=print, args=('child',))\n"
    code += "child.start()\nchild.join()\nprint(child.exitcode)"
    return front.run(code).describe()


@row("`multiprocessing` with spawn: output of the child")
def spawn_process(front: Front) -> str:
    code = "import multiprocessing as mp\n"
    code += "child = mp.get_context('spawn').Process(target=print, args=('child',))\n"
    code += "child.start()\nchild.join()\nprint(child.exitcode)"
    return front.run(code).describe()


@row("`os.fork()`, and a child that prints and calls `os._exit(0)`")
def fork(front: Front) -> str:
    code = "import os, sys\npid = os.fork()\nif pid == 0:\n    print('child')\n"
    code += "    sys.stdout.flush()\n    os._exit(0)\n_ = os.waitpid(pid, 0)\nprint('parent')"
    return front.run(code).describe()


cell(
    "signal_handler",
    "a handler of SIGUSR1",
    "import os, signal\n_ = signal.signal(signal.SIGUSR1, lambda *_: print('signal'))\n"
    "os.kill(os.getpid(), signal.SIGUSR1)",
)
cell(
    "sigint_handler",
    "`signal.getsignal(signal.SIGINT) is signal.default_int_handler`",
    "import signal\nsignal.getsignal(signal.SIGINT) is signal.default_int_handler",
    "The handler of ipybox raises KeyboardInterrupt, too, but in no code of the kernel.",
)
cell(
    "faulthandler",
    "`faulthandler.enable()`, `dump_traceback()`",
    "import faulthandler\nfaulthandler.enable()\nfaulthandler.is_enabled()",
)

# Displays


@row("`display(1, display_id='a')`, then `update_display(2, display_id='a')` in the next cell")
def update_display(front: Front) -> str:
    front.run("from IPython.display import display, update_display\ndisplay(1, display_id='a')")
    seen = front.run("update_display(2, display_id='a')")
    (message,) = seen.messages
    shown = message["content"]["data"]["text/plain"]
    return f"{message['msg_type']} {quote(shown)} of {message['content']['transient']}"


@row("`clear_output(wait=True)`")
def clear(front: Front) -> str:
    seen = front.run("from IPython.display import clear_output\nclear_output(wait=True)")
    return str(seen.contents("clear_output")[0])


@row("a matplotlib figure: MIME types of the display")
def figure(front: Front) -> str:
    code = "import matplotlib.pyplot as plt\n_ = plt.plot([1, 2])"
    front.run(code)
    return ", ".join(sorted(front.run(code).bundles[0]))


@row("the backend of matplotlib")
def backend(front: Front) -> str:
    return quote(front.run("import matplotlib\nprint(matplotlib.get_backend())").stdout)


@row("the same after `%config InlineBackend.figure_formats = ['svg']`")
def figure_svg(front: Front) -> str:
    code = "import matplotlib.pyplot as plt\n_ = plt.plot([1, 2])"
    front.run("%config InlineBackend.figure_formats = ['svg']")
    return ", ".join(sorted(front.run(code).bundles[0]))


@row("a DataFrame: MIME types of the result")
def frame(front: Front) -> str:
    seen = front.run("import pandas\npandas.DataFrame({'a': [1]})")
    return ", ".join(sorted(seen.bundles[0]))


@row("`get_ipython()`: class and module")
def shell_class(front: Front) -> str:
    return front.run("_c = type(get_ipython())\nprint(_c.__module__, _c.__name__)").describe()


@row("`print?`: the message, and the source of the payload")
def pager(front: Front) -> str:
    seen = front.run("print?")
    return f"{seen.describe()}, {seen.reply['payload'][0]['source']}"


@row("`get_ipython().set_next_input('x')`: the payload")
def next_input(front: Front) -> str:
    return str(front.run("get_ipython().set_next_input('x')").reply["payload"])


# Requests


@row("`silent`: messages, and whether the number of the next cell is the same")
def silent(front: Front) -> str:
    before = front.run("1").reply["execution_count"]
    seen = front.run("print('text')\n2", silent=True)
    after = front.run("1").reply["execution_count"]
    return f"{seen.describe()}, numbers differ by {after - before}"


@row("`store_history` false: the number of the next cell")
def store_history(front: Front) -> str:
    before = front.run("1").reply["execution_count"]
    front.run("2", store_history=False)
    return f"numbers differ by {front.run('1').reply['execution_count'] - before}"


@row("`user_expressions`, one good and one bad")
def user_expressions(front: Front) -> str:
    reply = front.run("x = 1", user_expressions={"good": "x + 1", "bad": "1 / 0"}).reply
    good, bad = (reply["user_expressions"][name] for name in ("good", "bad"))
    return f"{good['data']}, {bad['status']} {bad['ename']}"


@row("completion of `import colle`")
def complete(front: Front) -> str:
    reply = front.ask("complete", "import colle")
    return f"{reply['matches']}, from {reply['cursor_start']} to {reply['cursor_end']}"


@row("completion: the types of `pri`")
def complete_types(front: Front) -> str:
    reply = front.ask("complete", "prin")
    types = reply["metadata"]["_jupyter_types_experimental"]
    return str([(each["text"], each["type"]) for each in types])


@row("inspection of `len`: MIME types, and its first line")
def inspect(front: Front) -> str:
    data = front.ask("inspect", "len")["data"]
    return f"{', '.join(sorted(data))}, {quote(data['text/plain'].splitlines()[0])}"


@row("`is_complete_request` of `for i in x:`, `1`, `= 1`")
def is_complete(front: Front) -> str:
    replies = [front.ask_is_complete(code) for code in ("for i in x:", "1", "= 1")]
    return ", ".join(each["status"] + repr(each.get("indent", "")) for each in replies)


@row("history: the last cell")
def history(front: Front) -> str:
    front.run("x = 42")
    last = front.ask("history", hist_access_type="tail", n=1)["history"][-1]
    return f"{len(last)} items, code {quote(last[2])}"


@row(
    "`kernel_info_request`: protocol, language, implementation",
    "The name says which kernel it is.",
)
def kernel_info(front: Front) -> str:
    info = front.ask("kernel_info")
    return f"{info['protocol_version']}, {info['language_info']['name']}, {info['implementation']}"


@row(
    "`kernel_info_request`: `supported_features`",
    "There is no debugger of front ends, and there are no subshells.",
)
def features(front: Front) -> str:
    return str(sorted(front.ask("kernel_info").get("supported_features", [])))


# The end


@row(
    "`exit()`",
    "Code of agents calls it by mistake. The state of a kernel is worth more.",
    alone=True,
)
def exit_(front: Front) -> str:
    return end(front, "exit()")


@row("`sys.exit(1)`", alone=True)
def sys_exit(front: Front) -> str:
    return end(front, "import sys\nsys.exit(1)")


@row(
    "`os._exit(3)`, or a crash",
    "ipybox reports the cause.",
    alone=True,
)
def death(front: Front) -> str:
    return end(front, "import os\nos._exit(3)")


@row("a function of `atexit` prints when the kernel is shut down", alone=True)
def at_exit(front: Front) -> str:
    path = f"{WORKSPACE}/ended"
    front.run(f"import atexit\n_ = atexit.register(lambda: open({path!r}, 'w').close())")
    front.client.shutdown()
    front.wait_for_end()
    return "it runs" if remove(path) else "it does not run"


@row("a restart: are variables gone, is the number of the next cell 1?", alone=True)
def restart(front: Front) -> str:
    front.run("x = 1")
    front.manager.restart_kernel()
    front.client.wait_for_ready(timeout=60)
    seen = front.run("'x' in globals()")
    return f"{seen.result}, {seen.reply['execution_count']}"


def end(front: Front, code: str) -> str:
    """What came of a cell, and of its kernel."""
    front.run("x = 1")
    seen = front.run(code)
    how = seen.error or ("ok" if seen.reply else "no reply")
    if front.ends_soon():
        return f"{how}, the kernel ends"
    kept = front.run("'x' in globals()").result == "True"
    return f"{how}, the kernel {'keeps' if kept else 'loses'} its variables"


WORKSPACE = ""
HOME = ""


def remove(path: str) -> bool:
    import os

    try:
        os.unlink(path)
    except FileNotFoundError:
        return False
    return True
