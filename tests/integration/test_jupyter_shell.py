# SPDX-License-Identifier: Apache-2.0
"""What code sees of a rich client, a front end of Jupyter; and that other clients get text."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from typing import Any

import harness
import pytest
from gateway_driver import Gateway, contents
from kernel_driver import Kernel, only_error

ESCAPE = re.compile(r"\x1b\[[0-9;]*m")
SHOW_ENVIRONMENT = "import os\n[os.environ.get(n) for n in ('TERM', 'NO_COLOR', 'FORCE_COLOR')]"


@pytest.fixture
def rich(make_kernel: Callable[..., Kernel]) -> Kernel:
    return make_kernel(rich=True)


@pytest.fixture
def gateway(ipybox: str, place: harness.Place, python: str) -> Iterator[Gateway]:
    with Gateway(ipybox, place, "--python", python) as gateway:
        yield gateway


def error_of(messages: list[dict[str, Any]]) -> str:
    (error,) = contents(messages, "error")
    (reply,) = contents(messages, "execute_reply")
    assert reply["traceback"] == error["traceback"]
    return "\n".join(error["traceback"])


def value_of(messages: list[dict[str, Any]]) -> str:
    (result,) = contents(messages, "execute_result")
    return result["data"]["text/plain"]


# Colour


def test_colour_at_the_gateway(gateway: Gateway) -> None:
    with gateway.channels(gateway.start_kernel()) as client:
        traceback = error_of(client.run("def f():\n    return 1 / 0\nf()"))
        assert ESCAPE.search(traceback)
        assert "return 1 / 0" in ESCAPE.sub("", traceback)
        # As in ipykernel: a line, the name, two frames, the error.
        (error,) = contents(client.run("def f():\n    return 1 / 0\nf()"), "error")
        assert len(error["traceback"]) == 5
        assert "Cell In[2], line 3" in ESCAPE.sub("", error["traceback"][2])
        assert "\x1b" not in ESCAPE.sub("", traceback)
        data = client.ask("inspect_request", {"code": "print", "cursor_pos": 5})["data"]
        assert ESCAPE.search(data["text/plain"])
        assert "Signature" in ESCAPE.sub("", data["text/plain"])
        assert value_of(client.run(SHOW_ENVIRONMENT)) == "['xterm-color', None, '1']"
        # The magic of IPython works.
        client.run("%colors nocolor")
        assert not ESCAPE.search(error_of(client.run("1 / 0")))


def test_clients_of_the_gateway_that_show_text(gateway: Gateway) -> None:
    with gateway.channels(gateway.start_kernel(rich=False)) as client:
        assert "\x1b" not in error_of(client.run("1 / 0"))
        data = client.ask("inspect_request", {"code": "print", "cursor_pos": 5})["data"]
        assert "\x1b" not in data["text/plain"]
        assert value_of(client.run(SHOW_ENVIRONMENT)) == "['dumb', '1', None]"


def test_no_color_of_the_user(ipybox: str, place: harness.Place, python: str) -> None:
    place.environ["KERNEL_ENV_NO_COLOR"] = "1"
    with Gateway(ipybox, place, "--python", python) as gateway:
        with gateway.channels(gateway.start_kernel()) as client:
            assert "\x1b" not in error_of(client.run("1 / 0"))
            assert value_of(client.run(SHOW_ENVIRONMENT)) == "['xterm-color', '1', None]"


def test_other_clients_get_no_colour(mcp: Any, run_ipybox: Callable[..., Any]) -> None:
    assert "\x1b" not in mcp.failing_cell("1 / 0")
    assert "\x1b" not in mcp.cell("print?")
    done = run_ipybox("run", "-c", "1 / 0")
    assert "ZeroDivisionError" in done.stderr and "\x1b" not in done.stdout + done.stderr


@pytest.mark.parametrize(
    "code",
    [
        "1 +",
        "raise SystemExit(3)",
        "%no_such_magic",
        "raise ValueError('\\x1b[31mred\\x1b[0m') from KeyError(1)",
        "raise ExceptionGroup('g', [ValueError(1)])",
    ],
)
def test_errors_of_each_kind(rich: Kernel, kernel: Kernel, code: str) -> None:
    """The same text, with colour and without."""
    plain = only_error(kernel.run(code))
    (coloured,) = rich.run(code).errors
    assert ESCAPE.sub("", coloured["traceback"]) == plain["traceback"]
    assert "\n".join(coloured.get("parts", [coloured["traceback"]])) == coloured["traceback"]
    assert "parts" not in plain
    assert coloured["ename"] == plain["ename"]


# Payloads


def payload_of(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    (reply,) = contents(messages, "execute_reply")
    return reply["payload"]


def test_pages_at_the_gateway(gateway: Gateway) -> None:
    with gateway.channels(gateway.start_kernel()) as client:
        assert payload_of(client.run("1")) == []
        messages = client.run("print?")
        assert not contents(messages, "display_data") and not contents(messages, "stream")
        (page,) = payload_of(messages)
        assert page["source"] == "page" and page["start"] == 0
        assert ESCAPE.search(page["data"]["text/plain"])
        assert "Signature" in ESCAPE.sub("", page["data"]["text/plain"])
        # One page for a cell, the last. The next cell has none.
        client.run("def f():\n    return 'source of f'")
        (page,) = payload_of(client.run("print?\nf??"))
        assert "source of f" in ESCAPE.sub("", page["data"]["text/plain"])
        assert payload_of(client.run("1")) == []


def test_next_input_at_the_gateway(gateway: Gateway, workspace: Any) -> None:
    (workspace / "script.py").write_text("y = 'é\\n'\n")
    with gateway.channels(gateway.start_kernel(), v1=True) as client:
        messages = client.run("%load script.py")
        text = "# %load script.py\ny = 'é\\n'\n"
        assert payload_of(messages) == [{"source": "set_next_input", "text": text, "replace": True}]
        assert not contents(messages, "stream")
        (item,) = payload_of(client.run("%recall 1"))
        assert item == {"source": "set_next_input", "text": "%load script.py", "replace": False}
        # Also if the cell fails, and beside other values.
        messages = client.run("get_ipython().set_next_input('z')\n1 / 0")
        assert contents(messages, "execute_reply")[0]["status"] == "error"
        assert [item["text"] for item in payload_of(messages)] == ["z"]
        messages = client.run("get_ipython().set_next_input('z')", user_expressions={"a": "1"})
        assert [item["text"] for item in payload_of(messages)] == ["z"]
        assert contents(messages, "execute_reply")[0]["user_expressions"]["a"]["status"] == "ok"


def test_payloads_of_text_clients(mcp: Any, gateway: Gateway, workspace: Any) -> None:
    (workspace / "script.py").write_text("y = 5\n")
    assert "Signature" in mcp.cell("print?")
    assert mcp.cell("%load script.py") == "# %load script.py\ny = 5"
    with gateway.channels(gateway.start_kernel(rich=False)) as client:
        messages = client.run("print?\nget_ipython().set_next_input('z')")
        assert payload_of(messages) == []
        assert "Signature" in contents(messages, "display_data")[0]["data"]["text/plain"]
        assert contents(messages, "stream")[0]["text"] == "z\n"


def test_payloads_of_code(rich: Kernel) -> None:
    """Any item with a source is passed on; the limits hold; code cannot change it later."""
    rich.run("write = get_ipython().payload_manager.write_payload")
    cell = rich.run("item = {'source': 'mine', 'deep': [1]}\nwrite(item)\nitem['deep'].append(2)")
    assert cell.done["payload"] == [{"source": "mine", "deep": [1]}]
    cell = rich.run("for i in range(17): write({'source': 's', 'i': i}, single=False)")
    assert only_ename(cell) == "PayloadTooLarge"
    assert [item["i"] for item in cell.done["payload"]] == list(range(16))
    for item in ("1", "{}", "{'source': 1}", "{'source': 'a\\0'}"):
        cell = rich.run(f"write({item})")
        assert only_ename(cell) == "TypeError" and "payload" not in cell.done
    for large in ("'x' * (8 << 20)", "[0] * 60_000", "[0] * 3_000_000"):
        cell = rich.run(f"write({{'source': 's', 'x': {large}}})")
        assert only_ename(cell) == "PayloadTooLarge" and "payload" not in cell.done
    assert rich.run("write({'source': 's', 'x': '\\udc80é\\0'})").done["payload"] == [
        {"source": "s", "x": "\udc80é\0"}
    ]


def only_ename(cell: Any) -> str:
    (error,) = cell.errors
    return error["ename"]


def test_texts_that_are_too_large_for_payloads(rich: Kernel) -> None:
    """They are shown as they are to clients that show text."""
    cell = rich.run("get_ipython().set_next_input('x' * (8 << 20))")
    assert cell.stdout == "x" * (8 << 20) + "\n" and "payload" not in cell.done
    cell = rich.run("from IPython.core import page\npage.page('x' * (8 << 20))")
    assert [display["data"] for display in cell.displays] == [{"text/plain": "x" * (8 << 20)}]
    assert "payload" not in cell.done


def test_pager_of_the_user_comes_first(rich: Kernel) -> None:
    rich.run("get_ipython().set_hook('show_in_pager', lambda self, data, **_: print('mine'))")
    cell = rich.run("print?")
    assert cell.stdout == "mine\n" and "payload" not in cell.done


# What libraries look at


WHO = (
    "ip = get_ipython()\n"
    "[type(ip).__name__, type(ip).__module__.split('.')[0], hasattr(ip, 'kernel'), "
    "isinstance(ip, __import__('IPython').core.interactiveshell.InteractiveShell)]"
)


def test_shell_of_rich_clients(gateway: Gateway) -> None:
    """plotly, rich and pandas choose by the name and the module of the class."""
    with gateway.channels(gateway.start_kernel()) as client:
        assert value_of(client.run(WHO)) == "['ZMQInteractiveShell', 'ipykernel', True, True]"
        assert value_of(client.run("get_ipython() is ip is ip.kernel.shell")) == "True"
        # Other libraries look at these.
        assert value_of(client.run("'IPKernelApp' in ip.config")) == "True"
        code = (
            "import sys\nshell = sys.modules['ipykernel.zmqshell'].ZMQInteractiveShell\n"
            "shell is type(ip), isinstance(ip, shell)"
        )
        assert value_of(client.run(code)) == "(True, True)"
        (error,) = contents(client.run("sys.modules['ipykernel.zmqshell'].KernelMagics"), "error")
        assert error["ename"] == "ModuleNotFoundError"  # ipykernel is not installed
    with gateway.channels(gateway.start_kernel(rich=False)) as client:
        assert value_of(client.run(WHO)) == "['KernelShell', 'ipybox_kernel', False, True]"
        code = "import sys\n'IPKernelApp' in ip.config or 'ipykernel.zmqshell' in sys.modules"
        assert value_of(client.run(code)) == "False"


def test_shell_of_text_clients(mcp: Any, run_ipybox: Callable[..., Any]) -> None:
    text = "['KernelShell', 'ipybox_kernel', False, True]"
    assert mcp.cell(WHO) == text
    assert run_ipybox("run", "-c", WHO).stdout == text + "\n"


def test_kernel_object(gateway: Gateway) -> None:
    with gateway.channels(gateway.start_kernel()) as client:
        info = client.ask("kernel_info_request", {})
        client.run("k = get_ipython().kernel\nx = 5")
        for name in ("implementation", "implementation_version", "banner", "language_info"):
            assert ast.literal_eval(value_of(client.run(f"k.{name}"))) == info[name]
        assert value_of(client.run("k.execution_count == get_ipython().execution_count")) == "True"
        assert value_of(client.run("k.user_ns['x'], k.user_module.x")) == "(5, 5)"
        (error,) = contents(client.run("k.comm_manager"), "error")
        assert error["evalue"] == "comm_manager needs the package comm: install it"
        (error,) = contents(client.run("k.shell_stream"), "error")
        assert error["ename"] == "AttributeError"


def test_request_of_a_cell(gateway: Gateway) -> None:
    """Code gets the header of the client's request, as Output widgets need it."""
    with gateway.channels(gateway.start_kernel()) as client:
        code = "ip = get_ipython(); p = ip.get_parent(); p['header'], p['content'], p['msg_id']"
        msg_id = client.execute(code, user_expressions={"a": "1"})
        messages = client.receive_until(msg_id, "status", execution_state="idle")
        header, content, found = ast.literal_eval(value_of(messages))
        assert found == header["msg_id"] == msg_id
        assert header == messages[0]["parent_header"]
        assert content == {
            "code": code,
            "silent": False,
            "store_history": True,
            "user_expressions": {"a": "1"},
        }
        same = "ip.get_parent() == ip.parent_header == ip.kernel.get_parent()"
        assert value_of(client.run(f"{same} == ip.kernel._parent_header != p")) == "True"
        assert value_of(client.run("ip.kernel.get_parent('control')")) == "{}"


def test_messages_of_code(gateway: Gateway) -> None:
    """Code that sends messages by the session of the kernel, as a notebook of nbclient does."""
    with gateway.channels(gateway.start_kernel()) as client:
        client.run(
            "ip = get_ipython()\n"
            "def send(kind, **content):\n"
            "    ip.kernel.session.send(\n"
            "        ip.kernel.iopub_socket, kind, content, parent=ip.parent_header)"
        )
        messages = client.run(
            "send('display_data', data={'text/plain': 'a'}, metadata={}, "
            "transient={'display_id': 'd'})\n"
            "send('update_display_data', data={'text/plain': 'b'}, metadata={}, "
            "transient={'display_id': 'd'})\n"
            "send('execute_result', data={'text/plain': 'c'}, metadata={}, execution_count=2, "
            "transient={'display_id': 'r'})\n"
            "send('stream', name='stderr', text='e')\nsend('clear_output', wait=True)\n"
            "ip.kernel.send_response(ip.kernel.iopub_socket, 'stream', {'text': 'o'})"
        )
        wanted = ["display_data", "update_display_data", "execute_result"]
        outputs = [m for m in messages if m["header"]["msg_type"] in wanted]
        assert [m["header"]["msg_type"] for m in outputs] == wanted
        assert [m["content"]["data"]["text/plain"] for m in outputs] == ["a", "b", "c"]
        assert [m["content"]["transient"]["display_id"] for m in outputs] == ["d", "d", "r"]
        assert outputs[2]["content"]["execution_count"] == 2
        assert contents(messages, "stream") == [
            {"name": "stderr", "text": "e"},
            {"name": "stdout", "text": "o"},
        ]
        assert contents(messages, "clear_output") == [{"wait": True}]
        for code in (
            "send('comm_open', comm_id='x')",
            "send('status', execution_state='idle')",
            "ip.kernel.session.send(None, 'stream', {'text': 'x'})",
            "k = ip.kernel; k.session.send(k.iopub_socket, 'stream', {'text': 'x'}, buffers=[b''])",
        ):
            messages = client.run(code)
            (error,) = contents(messages, "error")
            assert error["ename"] == "NotImplementedError"
            assert "ipybox cannot send a message" in error["evalue"]
            assert not contents(messages, "stream") and not contents(messages, "comm_open")


def test_widgets_are_shown_as_text(rich: Kernel, kernel: Kernel) -> None:
    code = (
        "class W:\n    def _repr_mimebundle_(self, **_):\n"
        "        return {'text/plain': 'W()', "
        "'application/vnd.jupyter.widget-view+json': {'model_id': '1'}}\n"
        "display(W())\nW()"
    )
    for each in (rich, kernel):
        cell = each.run(code)
        assert [d["data"] for d in (*cell.displays, *cell.results)] == [{"text/plain": "W()"}] * 2


# Smaller things


def test_features_of_the_kernel(gateway: Gateway) -> None:
    with gateway.channels(gateway.start_kernel()) as client:
        # The first answer on control may come before the kernel has told what it is.
        for channel in ("control", "shell", "control"):
            info = client.ask("kernel_info_request", {}, channel)
            assert (info["supported_features"], info["protocol_version"]) == ([], "5.3")


HANDLER = (
    "def handle(shell, kind, value, tb, tb_offset=None):\n    print('handled', kind.__name__)\n"
    "get_ipython().set_custom_exc((ZeroDivisionError, SyntaxError), handle)"
)


def test_handlers_of_exceptions(gateway: Gateway) -> None:
    """What a handler has shown is not shown again. The cell has failed, as with ipykernel."""
    with gateway.channels(gateway.start_kernel()) as client:
        client.run(HANDLER)
        for code, name in (("1 / 0", "ZeroDivisionError"), ("1 +", "SyntaxError")):
            messages = client.run(code)
            assert contents(messages, "stream") == [{"name": "stdout", "text": f"handled {name}\n"}]
            assert not contents(messages, "error")
            (reply,) = contents(messages, "execute_reply")
            assert (reply["status"], reply["ename"]) == ("error", name)
        assert "KeyError" in error_of(client.run("{}[1]"))
        # A handler that fails is removed, and the error is shown.
        client.run("def handle(*_, **__): raise RuntimeError('broken')")
        client.run("get_ipython().set_custom_exc((ZeroDivisionError,), handle)")
        assert "ZeroDivisionError" in error_of(client.run("1 / 0"))
        assert "ZeroDivisionError" in error_of(client.run("1 / 0"))


def test_handlers_of_exceptions_and_text_clients(
    kernel: Kernel, mcp: Any, run_ipybox: Callable[..., Any]
) -> None:
    mcp.cell(HANDLER)
    assert mcp.failing_cell("1 / 0") == (
        "Error executing tool execute_ipython_cell: ZeroDivisionError: division by zero\n\n"
        "Output before the error:\n\nhandled ZeroDivisionError"
    )
    done = run_ipybox("run", "-c", HANDLER + "\n1 / 0")
    assert done.returncode == 1 and done.stdout == "handled ZeroDivisionError\n"
    kernel.run(HANDLER)
    cell = kernel.run("get_ipython().run_cell('1 / 0'); 5")
    assert (cell.status, cell.stdout, cell.result) == ("ok", "handled ZeroDivisionError\n", "5")
    (error,) = kernel.run("1 / 0").errors
    assert error["shown"] is True and error["traceback"] == ""
    (error,) = kernel.run("{}[1]").errors
    assert "shown" not in error and "KeyError" in error["traceback"]


def test_the_last_traceback(gateway: Gateway) -> None:
    """%tb is output, and no error of its cell."""
    with gateway.channels(gateway.start_kernel()) as client:
        client.run("1 / 0")
        messages = client.run("%tb")
        assert not contents(messages, "error")
        (stream,) = contents(messages, "stream")
        assert stream["name"] == "stderr" and ESCAPE.search(stream["text"])
        assert "ZeroDivisionError" in stream["text"]
        assert contents(messages, "execute_reply")[0]["status"] == "ok"


@pytest.mark.parametrize("code", ["exit", "exit()", "quit()", "raise SystemExit"])
def test_exit_ends_the_cell(gateway: Gateway, code: str) -> None:
    """The kernel keeps its state. What waits behind the cell is aborted."""
    with gateway.channels(gateway.start_kernel()) as client:
        client.run("x = 5")
        msg_id = client.execute(code)
        waiting = client.execute("x = 6")
        messages = client.receive_until(msg_id, "status", execution_state="idle")
        assert contents(messages, "error")[0]["ename"] == "SystemExit"
        messages = client.receive_until(waiting, "status", execution_state="idle")
        assert contents(messages, "execute_reply")[0]["status"] == "aborted"
        assert value_of(client.run("x")) == "5"


def test_installations_in_a_sandbox_say_what_to_do(
    ipybox: str, place: harness.Place, python: str
) -> None:
    """Kernels of a gateway call the tools of a tool server, which installs nothing."""
    with Gateway(ipybox, place, "--sandbox", "--python", python) as gateway:
        with gateway.channels(gateway.start_kernel(rich=False)) as client:
            messages = client.run("%pip install ./no-such.whl")
            text = "".join(content["text"] for content in contents(messages, "stream"))
            assert "no-such.whl" in text and "Install them outside of ipybox, into" in text
            assert "tool server" not in text
            messages = client.run("%pip show ipython")
            text = "".join(content["text"] for content in contents(messages, "stream"))
            assert "Name: ipython" in text
