# SPDX-License-Identifier: Apache-2.0
"""The MCP server on stdio: protocol, the tools, their output format."""

from __future__ import annotations

import json
import signal

import pytest
import scripted_server
from mcp_driver import McpServer, images_in
from meeting import DIE, Meeting, run_while_idle, wait_until_reaped

REVISIONS = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"]


# Protocol


@pytest.mark.parametrize("revision", REVISIONS)
def test_initialize_echoes_the_revision(ipybox, place, revision):
    with McpServer(ipybox, place, initialize=False) as server:
        result = server.initialize(revision)
        assert result["protocolVersion"] == revision
        assert result["serverInfo"]["name"] == "ipybox"
        assert result["capabilities"] == {"logging": {}, "tools": {}, "resources": {}}


def test_unknown_revision_gets_the_newest_we_speak(ipybox, place):
    with McpServer(ipybox, place, initialize=False) as server:
        assert server.initialize("2099-01-01")["protocolVersion"] == "2025-11-25"


def test_initialize_needs_no_python(ipybox, place):
    """initialize is answered although the interpreter cannot work. The cell reports it."""
    broken = place.workspace / "python"
    broken.write_text("#!/bin/sh\nexec sleep 1000\n")
    broken.chmod(0o755)
    with McpServer(ipybox, place, "--python", str(broken)) as server:
        assert len(server.answer(server.request("tools/list"))["result"]["tools"]) == 8


def test_broken_python_is_explained(ipybox, place):
    broken = place.workspace / "python"
    broken.write_text("#!/bin/sh\necho no module for you >&2\nexit 3\n")
    broken.chmod(0o755)
    with McpServer(ipybox, place, "--python", str(broken)) as server:
        text = server.failing_cell("1")
        assert "no module for you" in text


def test_protocol_errors(ipybox, place):
    with McpServer(ipybox, place, initialize=False) as server:
        assert server.answer(server.request("tools/list"))["error"]["code"] == -32600
        assert server.answer(server.request("ping"))["result"] == {}
        server.initialize()
        assert server.answer(server.request("no/such"))["error"]["code"] == -32601
        assert server.answer(server.request("tools/call", {"name": 1}))["error"]["code"] == -32602
        server.send("this is no JSON")
        assert server.receive()["error"]["code"] == -32700
        server.send("[]")
        assert server.receive()["error"]["code"] == -32600
        # Ids are returned as they were sent.
        for id in ("1", 1, 2**53 + 1, "ü\u2028\\"):
            assert server.answer(server.request("ping", id=id))["id"] == id


def test_batches(ipybox, place):
    """Only revision 2025-03-26 has them. The responses come one by one."""
    ping = {"jsonrpc": "2.0", "method": "ping"}
    batch = json.dumps(
        [
            {**ping, "id": "a"},
            {"jsonrpc": "2.0", "method": "notifications/x"},
            5,
            {**ping, "id": "b"},
        ]
    )
    with McpServer(ipybox, place, initialize=False) as server:
        server.initialize("2025-03-26")
        server.send(batch)
        answers = [server.receive() for _ in range(3)]
        assert [answer.get("id") for answer in answers] == ["a", None, "b"]
        assert answers[1]["error"]["code"] == -32600
        for wrong, code in (("[]", -32600), (batch[:-1], -32700)):
            server.send(wrong)
            assert server.receive()["error"]["code"] == code
        server.initialize("2025-06-18")
        server.send(batch)
        assert server.receive()["error"]["code"] == -32600


def test_list_tools(mcp):
    tools = mcp.answer(mcp.request("tools/list"))["result"]["tools"]
    assert [tool["name"] for tool in tools] == [
        "register_mcp_server",
        "install_package",
        "execute_ipython_cell",
        "reset",
        "describe_tools",
        "list_variables",
        "list_sessions",
        "close_session",
    ]
    by_name = {tool["name"]: tool["inputSchema"] for tool in tools}
    cell = by_name["execute_ipython_cell"]
    assert cell["required"] == ["code"]
    assert cell["properties"]["timeout"]["default"] == 120
    assert cell["properties"]["max_output_chars"]["default"] == 5000
    assert by_name["register_mcp_server"]["required"] == ["server_name", "server_params"]
    assert by_name["install_package"]["required"] == ["package_name"]
    assert list(by_name["reset"]["properties"]) == ["session_id"]
    assert all("outputSchema" not in tool for tool in tools[:4])


def test_bad_arguments_are_tool_errors(mcp):
    def text(tool: str, arguments: dict) -> str:
        result = mcp.tool(tool, arguments)
        assert result["isError"]
        return result["content"][0]["text"]

    prefix = "Error executing tool execute_ipython_cell: "
    assert text("execute_ipython_cell", {}).startswith(prefix)
    assert text("execute_ipython_cell", {"code": 1}).startswith(prefix)
    assert "timeout" in text("execute_ipython_cell", {"code": "1", "timeout": -1})
    for number in ("many", 1.5, -1):
        assert "max_output_chars" in text(
            "execute_ipython_cell", {"code": "1", "max_output_chars": number}
        )
    assert "server_params" in text("register_mcp_server", {"server_name": "x"})
    assert "package_name" in text("install_package", {"package_name": None})
    assert text("nosuch", {}) == "Unknown tool: nosuch"
    without = mcp.answer(mcp.request("tools/call", {"name": "reset", "arguments": None}))
    assert without["result"]["isError"] is False


# Cells


@pytest.mark.parametrize(
    ("code", "text"),
    [
        ("print('a')", "a"),
        ("1+1", "2"),
        ("print('a');2", "a\n2"),
        ("x=1", ""),
        ("", ""),
        ("'str'", "'str'"),
        ("1;", ""),
        ("import sys; print('o1'); print('e1', file=sys.stderr); print('o2')", "o1\ne1\no2"),
        ("import os; print('a', flush=True); os.write(1, b'raw\\n'); print('b')", "a\nraw\nb"),
        ("!echo hi; echo err >&2", "hi\nerr"),
        ("x = !echo hi\nx", "['hi']"),
        ("%%bash\necho $((1+2))", "3"),
        ("import asyncio\nawait asyncio.sleep(0.01)\nprint('slept')", "slept"),
        ("print('\\x00a')", "\u2400a"),
        ("print('\\ud800')", "\\ud800"),
        ("print('é€😀')", "é€😀"),
        ("display('first')\n5", "'first'\n5"),
        (
            "print('aa')\nfrom IPython.display import clear_output\nclear_output()\nprint('bb')",
            "aa\nbb",
        ),
    ],
)
def test_cell_text(mcp_shared, code, text):
    assert mcp_shared.cell(code) == text


@pytest.fixture(scope="module")
def mcp_shared(ipybox, tmp_path_factory):
    """One server for many small cells."""
    import harness

    place = harness.Place.make(tmp_path_factory.mktemp("shared") / "x")
    with McpServer(ipybox, place) as server:
        server.cell("1")  # the check for leftovers ignores what runs now
        yield server


def test_state_persists_until_reset(mcp):
    mcp.cell("x = 42\nimport os\nos.mkdir('sub')\nos.chdir('sub')")
    assert mcp.cell("x, os.path.basename(os.getcwd())") == "(42, 'sub')"
    reset = mcp.tool("reset")
    assert not reset["isError"] and len(reset["content"]) == 1
    assert reset["content"][0]["text"].startswith(
        "The kernel was reset: variables, imports and definitions are gone"
    )
    assert "NameError" in mcp.failing_cell("x")
    assert mcp.cell("import os; os.path.basename(os.getcwd())") == "'ws'"


def test_reset_writes_what_open_files_hold(mcp, workspace):
    mcp.cell("file = open('out.txt', 'w')\n_ = file.write('data')")
    mcp.tool("reset")
    assert mcp.cell("open('out.txt').read()") == "'data'"
    mcp.cell("import atexit, time\natexit.register(time.sleep, 1000);")  # no test waits that long
    mcp.tool("reset")
    assert mcp.cell("'time' in dir()") == "False"


def test_error_format(mcp):
    """One text: the error, then the output before it."""
    text = mcp.failing_cell("print('before')\n1/0")
    assert text.startswith(
        "Error executing tool execute_ipython_cell: ZeroDivisionError: division by zero\n-----"
    )
    assert "----> 2 1/0" in text
    assert "ipybox_kernel" not in text and "\x1b" not in text
    assert text.endswith(
        "ZeroDivisionError: division by zero\n\nOutput before the error:\n\nbefore"
    )
    assert "Output before" not in mcp.failing_cell("1/0")


def test_an_unknown_argument_is_named_with_the_right_one(mcp, workspace):
    """It was meant to have an effect; without it, the cell would not run as asked."""
    write = "open('ran', 'w').close()"
    for tool, arguments, wanted in [
        (
            "execute_ipython_cell",
            {"code": write, "timeout_s": 5},
            "there is no argument timeout_s, did you mean timeout?",
        ),
        (
            "execute_ipython_cell",
            {"code": write, "max_chars": 5},
            "max_chars, did you mean max_output_chars?",
        ),
        ("execute_ipython_cell", {"code": write, "Code": write}, "Code, did you mean code?"),
        (
            "execute_ipython_cell",
            {"code": write, "q": None},
            "argument q. The arguments are: code, timeout, max_output_chars",
        ),
        (
            "register_mcp_server",
            {"name": "x", "server_params": {}},
            "name, did you mean server_name?",
        ),
        (
            "install_package",
            {"package": "pip"},
            "package, did you mean package_name? The arguments are: package_name",
        ),
        ("reset", {"hard": True}, "there is no argument hard; the tool takes none"),
        ("reset", {"é\ud800" * 1000: 1}, "takes none"),
    ]:
        result = mcp.tool(tool, arguments)
        (block,) = result["content"]
        assert result["isError"] and block["text"].startswith(
            f"Error executing tool {tool}: there is no argument "
        )
        assert wanted in block["text"] and len(block["text"]) < 300, block
    assert not (workspace / "ran").exists()


def test_a_value_that_cannot_be_shown_is_an_error(mcp):
    """As in IPython's own kernel, for every representation."""
    text = mcp.failing_cell(
        "class A:\n    def __repr__(self): raise ValueError('no repr')\nprint('before')\nx = A()\nx"
    )
    assert text.startswith("Error executing tool execute_ipython_cell: ValueError: no repr\n----")
    assert text.endswith("\n\nOutput before the error:\n\nbefore")
    text = mcp.failing_cell(
        "class B:\n    def _repr_html_(self): raise ValueError('no html')\n"
        "    __repr__ = lambda s: 'B!'\nB()"
    )
    assert "ValueError: no html" in text and text.endswith("B!")
    assert "no repr" in mcp.cell(
        "display(x)\nprint('after')"
    )  # not the value of the cell: reported, and the cell continues
    assert (
        "no repr" in mcp.failing_cell("[x]")
        and mcp.failing_cell("[x]").count("ValueError: no repr") == 2
    )


def test_values_of_markdown_html_and_latex_are_their_text(mcp):
    mcp.cell("from IPython.display import HTML, Latex, Markdown, Math")
    assert mcp.cell("Markdown('# Title')") == "# Title"
    assert mcp.cell("display(Latex('$x$')); Math('y')") == "$x$\n$\\displaystyle y$"
    table = (
        "<style>td { color: red }</style><table><tr><th>a<th>b</tr><tr><td>1<td>&lt;2</tr></table>"
    )
    assert mcp.cell(f"HTML('{table}')") == "a\tb\n1\t<2"
    assert mcp.cell(
        "class C:\n    def _repr_html_(self): return '<b>c</b>'\n"
        "    def __repr__(self): return 'its repr'\nC()"
    ) == ("its repr")


def test_notices_are_marked_and_come_last(mcp, workspace):
    (workspace / "images").touch()
    text = mcp.cell("import matplotlib.pyplot as plt\nplt.plot([1])\nplt.show()\nprint('{}')")
    assert text.startswith("<Figure") and "\n{}\n\n[ipybox] image not saved: " in text
    text = mcp.failing_cell("plt.plot([1])\nplt.show()\n1/0")
    before, _, notices = text.partition("Output before the error:\n\n<Figure")
    assert "ZeroDivisionError" in before and "\n\n[ipybox] image not saved: " in notices


def test_notices_of_a_cancelled_cell_come_with_the_next(mcp, workspace):
    go = Meeting(workspace / "go")
    pid = mcp.cell(run_while_idle(go, DIE))
    go.wait()
    wait_until_reaped(pid)
    id = mcp.start_tool(
        "execute_ipython_cell",
        {"code": "print('go', flush=True)\nimport time\ntime.sleep(1000)"},
        token="t",
    )
    while not any(n["method"] == "notifications/progress" for n in mcp.notifications):
        mcp.receive()
    mcp.notify("notifications/cancelled", {"requestId": id})
    late = mcp.failing_cell("import time\ntime.sleep(1000)", timeout=0.5)
    assert "\n\n[ipybox] while idle, the kernel was killed by SIGKILL" in late
    assert mcp.cell("1") == "1"


def test_truncation(mcp):
    assert mcp.cell("print('x' * 10)", max_output_chars=10) == "x" * 10
    assert mcp.cell("print('é' * 11)", max_output_chars=10) == (
        "é" * 6
        + "\n\n[Output cut here: 1 of 11 characters left out]\n\n"
        + "é" * 4
        + "\n\n[Output truncated: exceeded 10 character limit]"
    )
    text = mcp.cell("print('head'); print('x' * 6000); print('tail')")
    assert text.startswith("head\nx") and text.endswith(
        "x\ntail\n\n[Output truncated: exceeded 5000 character limit]"
    )
    assert mcp.cell("print('xyz')", max_output_chars=0) == (
        "[Output cut here: 3 of 3 characters left out]\n\n"
        "[Output truncated: exceeded 0 character limit]"
    )
    assert mcp.cell("print()", max_output_chars=0) == ""
    assert mcp.cell("print('xyz')", max_output_chars=1) == (
        "x\n\n[Output cut here: 2 of 3 characters left out]\n\n"
        "[Output truncated: exceeded 1 character limit]"
    )


def test_plots_are_files(mcp, workspace):
    text = mcp.cell(
        "import matplotlib.pyplot as plt\nplt.plot([1, 2, 3])\nplt.show()\nprint('done')"
    )
    (image,) = images_in(text)
    assert image.parent == workspace / "images"
    assert text.endswith(f"\n\nGenerated images:\n\n- [{image.stem}]({image})\n")
    assert image.read_bytes().startswith(b"\x89PNG")
    assert len(images_in(mcp.cell("plt.plot([3]); plt.figure(); plt.plot([4]);"))) == 2


def test_images_are_named_beyond_the_limit(mcp):
    text = mcp.cell(
        "import matplotlib.pyplot as plt\nprint('x' * 100)\nplt.plot([1]);", max_output_chars=20
    )
    assert "[Output truncated: exceeded 20 character limit]" in text
    assert images_in(text)[0].exists()


def test_images_directory_that_is_a_link_is_refused(mcp, workspace, place):
    (place.home / "target").mkdir()
    (workspace / "images").symlink_to(place.home / "target")
    text = mcp.cell("import matplotlib.pyplot as plt\nplt.plot([1]);")
    assert "image not saved" in text
    assert list((place.home / "target").iterdir()) == []


def test_timeout_keeps_the_state(mcp):
    mcp.cell("x = 1")
    text = mcp.failing_cell("print('begun')\nimport time\nwhile True: time.sleep(0.01)", timeout=2)
    assert text.startswith(
        "Error executing tool execute_ipython_cell: "
        "Code execution exceeded timeout of 2.00s (approval wait excluded). The cell was "
        "interrupted; variables are kept."
    )
    assert "begun" in text
    assert mcp.cell("x") == "1"


def test_cancelled_request_interrupts_and_is_not_answered(mcp):
    mcp.cell("x = 1")
    id = mcp.start_tool(
        "execute_ipython_cell", {"code": "print('go')\nimport time\ntime.sleep(1000)"}, token="t"
    )
    while not any(n["method"] == "notifications/progress" for n in mcp.notifications):
        mcp.receive()
    mcp.notify("notifications/cancelled", {"requestId": id, "reason": "test"})
    assert mcp.cell("x + 1") == "2"
    assert id not in mcp.answers


def test_the_next_cell_says_that_a_cancelled_one_lost_the_state(mcp):
    code = (
        "try:\n    print('go', flush=True)\n    time.sleep(1000)\nexcept KeyboardInterrupt:\n"
        "    os.kill(os.getpid(), 9)"
    )
    mcp.cell("import os, time")
    id = mcp.start_tool("execute_ipython_cell", {"code": code}, token="t")
    while not any(n["method"] == "notifications/progress" for n in mcp.notifications):
        mcp.receive()
    mcp.notify("notifications/cancelled", {"requestId": id})
    lost = (
        "[ipybox] the kernel was killed by SIGKILL (killed); its state is lost, the next cell "
        "runs in a fresh kernel"
    )
    assert mcp.cell("1") == f"1\n\n{lost}"
    assert mcp.cell("1") == "1"


# A cell that runs until the file `go` exists.
UNTIL_TOLD = "import os, time\nwhile not os.path.exists('go'): time.sleep(0.01)\n"


def test_waiting_cell_can_be_cancelled(mcp, workspace):
    running = mcp.start_tool("execute_ipython_cell", {"code": UNTIL_TOLD + "'first'"})
    waiting = mcp.start_tool("execute_ipython_cell", {"code": "y = 1"})
    mcp.notify("notifications/cancelled", {"requestId": waiting})
    mcp.answer(mcp.request("ping"))
    (workspace / "go").touch()
    assert mcp.answer(running)["result"]["content"][0]["text"] == "'first'"
    assert mcp.cell("'y' in globals()") == "False"
    assert waiting not in mcp.answers


def test_other_requests_are_answered_while_a_cell_runs(mcp, workspace):
    id = mcp.start_tool("execute_ipython_cell", {"code": UNTIL_TOLD + "'end'"})
    assert mcp.answer(mcp.request("ping"))["result"] == {}
    assert len(mcp.answer(mcp.request("tools/list"))["result"]["tools"]) == 8
    assert id not in mcp.answers
    (workspace / "go").touch()
    assert mcp.answer(id)["result"]["content"][0]["text"] == "'end'"


def test_progress_brings_the_output(mcp):
    code = "import time\nfor i in range(3):\n    print('step', i)\n    time.sleep(0.3)"
    mcp.answer(mcp.start_tool("execute_ipython_cell", {"code": code}, token=7))
    news = [n["params"] for n in mcp.notifications if n["method"] == "notifications/progress"]
    assert "".join(n["message"] for n in news) == "step 0\nstep 1\nstep 2\n"
    assert all(n["progressToken"] == 7 for n in news)
    values = [n["progress"] for n in news]
    assert values == sorted(set(values))


def test_no_progress_without_a_token(mcp):
    mcp.cell("print('x')")
    assert mcp.notifications == []


def test_cells_run_in_the_order_of_their_requests(mcp):
    ids = [mcp.start_tool("execute_ipython_cell", {"code": f"n = {i}; n"}) for i in range(50)]
    assert [mcp.answer(id)["result"]["content"][0]["text"] for id in ids] == [
        str(i) for i in range(50)
    ]


# Environment


def test_kernel_environment(ipybox, place):
    place.environ |= {"SECRET": "s1", "KERNEL_ENV_FROM_ENV": "e", "KERNEL_ENV_BOTH": "environment"}
    (place.workspace / ".env").write_text(
        "OTHER=s2\nKERNEL_ENV_FROM_FILE='f 1'\nKERNEL_ENV_BOTH=file\n"
    )
    with McpServer(ipybox, place) as server:
        names = (
            "'SECRET', 'OTHER', 'FROM_ENV', 'FROM_FILE', 'BOTH', 'KERNEL_ENV_BOTH', 'TERM', "
            "'NO_COLOR'"
        )
        text = server.cell(f"import os\n[os.environ.get(n) for n in ({names})]")
        assert text == "[None, None, 'e', 'f 1', 'environment', None, 'dumb', '1']"
        assert "s1" not in server.cell("!cat /proc/$PPID/environ | tr '\\0' '\\n'")


def test_workspace_option(ipybox, place, tmp_path):
    (tmp_path / "w").mkdir()
    with McpServer(ipybox, place, "--workspace", str(tmp_path / "w")) as server:
        assert server.cell("import os; os.getcwd()") == repr(str(tmp_path / "w"))
        assert (
            images_in(server.cell("import matplotlib.pyplot as p; p.plot([1]);"))[0].parent
            == tmp_path / "w/images"
        )


def test_preload(ipybox, place):
    with McpServer(ipybox, place, "--preload", "numpy,pandas") as server:
        assert (
            server.cell("import sys; 'numpy' in sys.modules and 'pandas' in sys.modules") == "True"
        )
        assert server.cell("import pandas as pd; pd.DataFrame({'a': [1]}).shape") == "(1, 1)"


# The end


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_signal_ends_it_in_order(ipybox, place, number):
    with McpServer(ipybox, place) as server:
        server.cell("import subprocess; p = subprocess.Popen(['sleep', '1000'])")
        id = server.start_tool("execute_ipython_cell", {"code": "import time; time.sleep(1000)"})
        server.answer(server.request("ping"))
        server.process.send_signal(number)
        assert server.process.wait(60) == 0
        del id


def test_end_of_input_in_a_cell_leaves_nothing(ipybox, place):
    with McpServer(ipybox, place) as server:
        server.start_tool("execute_ipython_cell", {"code": "!sleep 1000 & setsid sleep 1000"})
        server.answer(server.request("ping"))


def test_killed_server_leaves_nothing(ipybox, place):
    with McpServer(ipybox, place) as server:
        server.register("time", scripted_server.params("clock"))
        server.cell(
            "from mcptools.time import get_current_time as g\ng.run(g.Params(timezone='UTC'));"
        )
        server.start_tool("execute_ipython_cell", {"code": "import time; time.sleep(1000)"})
        server.answer(server.request("ping"))
        server.process.send_signal(signal.SIGKILL)
        assert server.process.wait(60) == -signal.SIGKILL
        server.close = lambda: 0


def test_closed_output_ends_it(ipybox, place):
    server = McpServer(ipybox, place)
    server.process.stdout.close()
    server.request("ping")
    assert server.process.wait(60) in (0, 1)
    server.process.stdin.close()


def test_empty_input(run_ipybox):
    done = run_ipybox()
    assert (done.returncode, done.stdout) == (0, "")


# Flags


def test_flags_of_the_original(ipybox, place):
    flags = [
        "--tool-server-host",
        "localhost",
        "--tool-server-port",
        "8900",
        "--kernel-gateway-host",
        "localhost",
        "--kernel-gateway-port",
        "8888",
        "--log-level",
        "INFO",
        "--workspace",
        ".",
    ]
    with McpServer(ipybox, place, *flags) as server:
        assert server.cell("1") == "1"


def test_wrong_flags(run_ipybox):
    assert run_ipybox("--nosuch").returncode == 2
    assert run_ipybox("--log-level", "LOUD").returncode == 2
    assert run_ipybox("--workspace", "/no/such/place").returncode != 0
    assert run_ipybox("nosuchverb").returncode == 2


# Ten thousand cells


def test_two_thousand_cells_lose_nothing(mcp):
    """Prints, C writes to fd 1, stderr, displays and results are complete and in order.

    The benchmarks count what is lost in ten thousand.
    """
    mcp.cell("import os, sys, ctypes\nlibc = ctypes.CDLL(None)")
    total, batch = 2_000, 200
    for start in range(0, total, batch):
        ids = [
            mcp.start_tool(
                "execute_ipython_cell",
                {
                    "code": (
                        f"print('p{i}')\nsys.stdout.flush()\nos.write(1, b'w{i}\\n')\n"
                        f"libc.puts(b'c{i}')\nlibc.fflush(None)\n"
                        f"print('e{i}', file=sys.stderr)\ndisplay({i})\nprint('q{i}')\n'r{i}'"
                    )
                },
            )
            for i in range(start, start + batch)
        ]
        for i, id in zip(range(start, start + batch), ids, strict=True):
            text = mcp.answer(id)["result"]["content"][0]["text"]
            assert text == f"p{i}\nw{i}\nc{i}\ne{i}\n{i}\nq{i}\n'r{i}'", i
