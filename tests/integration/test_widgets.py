# SPDX-License-Identifier: Apache-2.0
"""Comms and widgets: ipywidgets, anywidget, ipympl and tqdm, with Jupyter's clients and others."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import harness
import pytest
from gateway_driver import Channels, Gateway, contents
from server_process import jupyter_python

PROGRAM = str(Path(__file__).with_name("zmq_program.py"))
VIEW = "application/vnd.jupyter.widget-view+json"


@pytest.fixture(scope="session")
def widgets_python() -> str:
    """A Python of kernels with ipywidgets, anywidget, ipympl, matplotlib and tqdm."""
    return str(harness.existing(harness.CACHE / "jupyterlab/bin/python"))


@pytest.fixture
def gateway(ipybox: str, place: harness.Place, widgets_python: str) -> Iterator[Gateway]:
    with Gateway(ipybox, place, "--python", widgets_python) as gateway:
        yield gateway


@pytest.fixture
def client(gateway: Gateway) -> Iterator[Channels]:
    with gateway.channels(gateway.start_kernel()) as client:
        yield client


@pytest.fixture(params=[False, True], ids=["json", "v1"])
def either(request: pytest.FixtureRequest, gateway: Gateway) -> Iterator[Channels]:
    """A client with each of the framings."""
    with gateway.channels(gateway.start_kernel(), v1=request.param) as client:
        yield client


def value_of(messages: list[dict]) -> Any:
    (result,) = contents(messages, "execute_result")
    return result["data"]["text/plain"]


def of_type(messages: list[dict], msg_type: str) -> list[dict]:
    return [message for message in messages if message["header"]["msg_type"] == msg_type]


def text_of(messages: list[dict], name: str = "stdout") -> str:
    return "".join(c["text"] for c in contents(messages, "stream") if c["name"] == name)


def tell(
    client: Channels,
    comm_id: str,
    data: Any,
    kind: str = "comm_msg",
    buffers: list[bytes] | None = None,
    metadata: dict | None = None,
    **content: Any,
) -> list[dict]:
    """What a message of a comm leads to. All of it has the message as its parent."""
    message = {"comm_id": comm_id, "data": data, **content}
    metadata = metadata or {"from": "test"}
    msg_id = client.send(kind, message, metadata=metadata, buffers=buffers)
    return client.receive_until(msg_id, "status", execution_state="idle")


def update(client: Channels, comm_id: str, **state: Any) -> list[dict]:
    return tell(client, comm_id, {"method": "update", "state": state, "buffer_paths": []})


def model_of(messages: list[dict]) -> str:
    """The model whose view is shown."""
    shown = [*contents(messages, "execute_result"), *contents(messages, "display_data")]
    (model,) = [content["data"][VIEW]["model_id"] for content in shown if VIEW in content["data"]]
    return model


# Widgets

SLIDER = """
import ipywidgets
slider = ipywidgets.IntSlider(value=3)
def changed(change):
    print('changed to', change['new'])
    display(ipywidgets.HTML('new'))
slider.observe(changed, 'value')
slider
"""


def test_slider(either: Channels) -> None:
    messages = either.run(SLIDER)
    model = model_of(messages)
    opens = {message["content"]["comm_id"]: message for message in of_type(messages, "comm_open")}
    state = opens[model]["content"]["data"]["state"]
    assert (state["_model_name"], state["value"]) == ("IntSliderModel", 3)
    assert opens[model]["content"]["target_name"] == "jupyter.widget"
    assert opens[model]["metadata"]["version"].startswith("2.")
    # Its parts are opened before it is shown.
    assert {state["layout"], state["style"]} == {f"IPY_MODEL_{c}" for c in opens if c != model}

    messages = update(either, model, value=7)
    assert text_of(messages) == "changed to 7\n"
    assert contents(messages, "display_data")[0]["data"]["text/plain"] == "HTML(value='new')"
    assert not of_type(messages, "execute_input") and not of_type(messages, "execute_reply")
    assert value_of(either.run("slider.value")) == "7"

    # Code changes it: the client gets the state.
    messages = either.run("slider.value = 9")
    assert text_of(messages) == "changed to 9\n"
    assert [c["data"]["state"] for c in contents(messages, "comm_msg")] == [{"value": 9}]


def test_counts_and_history(client: Channels) -> None:
    """Messages of comms are no cells: they have no number, and no place in the history."""
    model = model_of(client.run(SLIDER))
    update(client, model, value=5)
    (reply,) = contents(client.run("get_ipython().execution_count"), "execute_reply")
    assert reply["execution_count"] == 2
    history = client.ask("history_request", {"hist_access_type": "tail", "n": 10, "raw": True})
    assert [entry[1] for entry in history["history"]] == [1, 2]


def test_order_with_cells(client: Channels) -> None:
    """Messages are handled in the order in which they came, as on Jupyter's shell channel."""
    model = model_of(client.run(SLIDER))
    client.execute("import time\ntime.sleep(0.2)\nbefore = slider.value")
    client.send("comm_msg", state_message(model, 8))
    client.execute("between = slider.value")
    client.send("comm_msg", state_message(model, 11))
    assert value_of(client.run("before, between, slider.value")) == "(3, 8, 11)"


def state_message(comm_id: str, value: int) -> dict:
    data = {"method": "update", "state": {"value": value}, "buffer_paths": []}
    return {"comm_id": comm_id, "data": data}


def test_widgets_that_the_client_makes(client: Channels) -> None:
    """The front end opens a comm for a widget of its own, and asks for the state of all."""
    client.run("import ipywidgets")
    state = {
        "_model_name": "LayoutModel",
        "_model_module": "@jupyter-widgets/base",
        "_model_module_version": "2.0.0",
        "_view_name": "LayoutView",
        "_view_module": "@jupyter-widgets/base",
        "_view_module_version": "2.0.0",
        "width": "42px",
    }
    data = {"state": state, "buffer_paths": []}
    options: dict = {"target_name": "jupyter.widget", "metadata": {"version": "2.1.0"}}
    tell(client, "mine", data, "comm_open", **options)
    assert value_of(client.run("ipywidgets.Widget.widgets['mine'].width")) == "'42px'"

    options = {"target_name": "jupyter.widget.control", "metadata": {"version": "1.0.0"}}
    tell(client, "control", {}, "comm_open", **options)
    messages = tell(client, "control", {"method": "request_states"})
    (answer,) = contents(messages, "comm_msg")
    assert answer["data"]["states"]["mine"]["state"]["width"] == "42px"


def test_output_widget(client: Channels) -> None:
    """The front end moves what comes while the widget has the message's id as its msg_id."""
    messages = client.run(
        "import ipywidgets\nfrom IPython.display import clear_output\n"
        "out = ipywidgets.Output()\nprint('before')\nwith out:\n    print('one')\n"
        "    clear_output(wait=True)\n    display('two')\nprint('after')"
    )
    seen = []
    for message in messages:
        content = message["content"]
        if message["header"]["msg_type"] == "comm_msg":
            seen.append(("captures", content["data"]["state"]["msg_id"]))
        elif message["header"]["msg_type"] == "stream":
            seen.append(content["text"])
        elif message["header"]["msg_type"] in ("clear_output", "display_data"):
            seen.append(message["header"]["msg_type"])
    request = messages[0]["parent_header"]["msg_id"]
    captures, ends = ("captures", request), ("captures", "")
    assert seen == [
        *("before\n", captures, "one\n", "clear_output", "display_data", ends, "after\n"),
    ]

    # In a handler it is the message of the comm.
    model = model_of(
        client.run(
            "button = ipywidgets.Button()\ndef click(_):\n    with out: print('clicked')\n"
            "button.on_click(click)\nbutton"
        )
    )
    messages = tell(client, model, {"method": "custom", "content": {"event": "click"}})
    states = [c["data"]["state"]["msg_id"] for c in contents(messages, "comm_msg")]
    assert states == [messages[0]["parent_header"]["msg_id"], ""]
    assert text_of(messages) == "clicked\n"


def test_output_widget_without_comms(gateway: Gateway) -> None:
    """What it captures is shown with the cell's, which clear_output in it does not clear."""
    with gateway.channels(gateway.start_kernel(rich=False)) as client:
        messages = client.run(
            "import ipywidgets\nfrom IPython.display import clear_output\n"
            "out = ipywidgets.Output()\nprint('before')\nwith out:\n    print('one')\n"
            "    clear_output(wait=True)\n    print('two')\nprint('after')"
        )
        assert text_of(messages) == "before\none\ntwo\nafter\n"
        assert not of_type(messages, "clear_output")
        messages = client.run("with out: 1 / 0\nclear_output()")
        assert "ZeroDivisionError" in text_of(messages, "stderr")
        assert len(of_type(messages, "clear_output")) == 1


def test_clients_that_show_text(gateway: Gateway, run_ipybox: Any, widgets_python: str) -> None:
    code = SLIDER + "\nslider.value = 4"
    with gateway.channels(gateway.start_kernel(rich=False)) as client:
        messages = client.run(code + "\nslider")
        assert contents(messages, "execute_result")[0]["data"] == {
            "text/plain": "IntSlider(value=4)"
        }
        assert text_of(messages) == "changed to 4\n"
        assert not [m for m in messages if m["header"]["msg_type"].startswith("comm_")]
        assert client.ask("comm_info_request", {})["comms"] == {}
        messages = tell(client, "c", {}, "comm_open", target_name="jupyter.widget")
        assert contents(messages, "comm_close") == [{"comm_id": "c", "data": {}}]
    done = run_ipybox("run", "--python", widgets_python, "-c", SLIDER)
    assert done.stdout == "IntSlider(value=3)\n", done.stderr
    bar = "from tqdm.auto import tqdm\nfor i in tqdm(range(3)): pass"
    done = run_ipybox("run", "--python", widgets_python, "-c", bar)
    assert "100%" in done.stderr and "3/3" in done.stderr and "HBox" not in done.stdout


def test_views_of_closed_widgets(client: Channels) -> None:
    """The front end would show an error for a view whose model it does not have."""
    client.run(SLIDER)
    (result,) = contents(client.run("slider.close()\nslider"), "execute_result")
    assert VIEW not in result["data"] and "text/plain" in result["data"]


def test_progress_bars(client: Channels) -> None:
    messages = client.run(
        "from tqdm.auto import tqdm\nfor i in tqdm(range(3), mininterval=0): pass"
    )
    model = model_of(messages)
    opens = {c["comm_id"]: c["data"]["state"] for c in contents(messages, "comm_open")}
    assert opens[model]["_model_name"] == "HBoxModel"
    values = [
        content["data"]["state"]["value"]
        for content in contents(messages, "comm_msg")
        if opens[content["comm_id"]]["_model_name"] == "FloatProgressModel"
        and "value" in content["data"]["state"]
    ]
    assert values[-1] == 3 and values == sorted(values)
    assert text_of(messages, "stderr") == ""


def test_plots_that_can_be_moved(either: Channels) -> None:
    messages = either.run(
        "%matplotlib widget\nimport matplotlib.pyplot as plt\nfig, ax = plt.subplots()\n"
        "ax.plot([1, 2])\nplt.show()"
    )
    model = model_of(messages)
    # As the front end does when its view is ready.
    for kind in ("send_image_mode", "refresh", "initialized", "draw"):
        messages = tell(either, model, {"method": "custom", "content": {"type": kind}})
    images = [
        message["buffers"][0]
        for message in of_type(messages, "comm_msg")
        if message["content"]["data"].get("content") == {"data": '{"type": "binary"}'}
    ]
    assert images and all(image.startswith(b"\x89PNG") for image in images)


ANYWIDGET = """
import anywidget, traitlets
class W(anywidget.AnyWidget):
    _esm = 'export default {}'
    blob = traitlets.Any(b'').tag(sync=True)  # what comes is a memoryview
w = W(blob=b'\\0first')
w.on_msg(lambda widget, content, buffers: print(content, [bytes(b) for b in buffers]))
w
"""


def test_anywidget(either: Channels) -> None:
    messages = either.run(ANYWIDGET)
    model = model_of(messages)
    (opened,) = [m for m in of_type(messages, "comm_open") if m["content"]["comm_id"] == model]
    assert opened["content"]["data"]["buffer_paths"] == [["blob"]]
    assert opened["buffers"] == [b"\0first"]

    data = {"method": "update", "state": {}, "buffer_paths": [["blob"]]}
    tell(either, model, data, buffers=[b"\xff\0new"])
    assert value_of(either.run("bytes(w.blob)")) == r"b'\xff\x00new'"
    messages = tell(either, model, {"method": "custom", "content": "hi"}, buffers=[b"", b"\0"])
    assert text_of(messages) == "hi [b'', b'\\x00']\n"
    (sent,) = of_type(either.run("w.send({'a': 1}, buffers=[b'x', b''])"), "comm_msg")
    assert sent["content"]["data"] == {"method": "custom", "content": {"a": 1}}
    assert sent["buffers"] == [b"x", b""]


# Comms of other code

ECHO = """
import comm
def opened(c, message):
    global last
    last = c
    def echo(message):
        content = message['content']
        c.send(content['data'], message['metadata'], message['buffers'])
    c.on_msg(echo)
    c.on_close(lambda message: print('closed with', message['content']['data']))
    c.send({'opened with': message['content']['data']})
comm.get_comm_manager().register_target('echo', opened)
"""


def open_echo(client: Channels, comm_id: str = "e", **data: Any) -> list[dict]:
    client.run(ECHO)
    return tell(client, comm_id, data, "comm_open", target_name="echo")


def test_comms_with_buffers(either: Channels) -> None:
    (opened,) = of_type(open_echo(either, a=1), "comm_msg")
    assert opened["content"] == {"comm_id": "e", "data": {"opened with": {"a": 1}}}
    assert opened["buffers"] == []
    large = bytes(range(256)) * 20_000
    for buffers in ([], [b""], [b"\0", b"", b"\xff\xfe"], [large, b"end"], [b"x"] * 1000):
        for data in ({"ä": [1, 2.5, None]}, [], "text", None):
            (sent,) = of_type(tell(either, "e", data, buffers=buffers), "comm_msg")
            # The package makes {} of what is false.
            assert sent["content"] == {"comm_id": "e", "data": {} if data is None else data}
            assert sent["buffers"] == buffers and sent["metadata"] == {"from": "test"}


def test_comms_that_are_too_large(client: Channels) -> None:
    open_echo(client)
    (error,) = contents(client.run("last.send({}, buffers=[b''] * 1001)"), "error")
    assert (error["ename"], error["evalue"]) == (
        "ValueError",
        "a comm message can have 1000 buffers, not 1001",
    )
    (error,) = contents(client.run("last.send({}, buffers=[bytes(60_000_000)])"), "error")
    assert "at most 67 MB can be sent" in error["evalue"]
    (error,) = contents(client.run("comm.create_comm(target_name='x' * 5000)"), "error")
    assert error["evalue"] == "names of a comm have 1000 characters at most"
    (error,) = contents(tell(client, "e", {}, buffers=[bytes(50_000_000)]), "error")
    assert "the comm message is too large" in error["evalue"]
    (sent,) = of_type(tell(client, "e", {}, buffers=[b"still there"]), "comm_msg")
    assert sent["buffers"] == [b"still there"]


def test_comm_info(client: Channels) -> None:
    assert client.ask("comm_info_request", {})["comms"] == {}
    open_echo(client)
    open_echo(client, "f")
    client.run("import ipywidgets\nlayout = ipywidgets.Layout()")
    comms = client.ask("comm_info_request", {})["comms"]
    assert sorted(c["target_name"] for c in comms.values()) == ["echo", "echo", "jupyter.widget"]
    comms = client.ask("comm_info_request", {"target_name": "echo"})["comms"]
    assert comms == {"e": {"target_name": "echo"}, "f": {"target_name": "echo"}}
    assert client.ask("comm_info_request", {"target_name": "none"})["comms"] == {}


def test_closing(client: Channels) -> None:
    open_echo(client)
    messages = tell(client, "e", {"why": "done"}, "comm_close")
    assert text_of(messages) == "closed with {'why': 'done'}\n"
    assert not contents(messages, "comm_close")
    assert client.ask("comm_info_request", {})["comms"] == {}
    open_echo(client)
    messages = client.run("last.close({'by': 'code'}, buffers=[b'b'])")
    (closed,) = of_type(messages, "comm_close")
    assert closed["content"] == {"comm_id": "e", "data": {"by": "code"}}
    assert closed["buffers"] == [b"b"]
    assert client.ask("comm_info_request", {})["comms"] == {}
    # Messages that were on their way.
    assert len(tell(client, "e", {})) == len(tell(client, "e", {}, "comm_close")) == 2


def test_unknown_comms_and_targets(client: Channels) -> None:
    for imports in ("1", "import comm"):
        client.run(imports)
        for kind in ("comm_msg", "comm_close"):
            assert len(tell(client, "unknown", {}, kind)) == 2  # busy, idle
        messages = tell(client, "n", {}, "comm_open", target_name="none")
        assert contents(messages, "comm_close") == [{"comm_id": "n", "data": {}}]
        assert not contents(messages, "error")
    assert client.ask("comm_info_request", {})["comms"] == {}


@pytest.mark.parametrize(
    "kind, content, part",
    [
        ("comm_msg", {"data": {}}, "a string comm_id"),
        ("comm_msg", {"comm_id": 1, "data": {}}, "a string comm_id"),
        ("comm_close", {"comm_id": "a\0", "data": {}}, "a string comm_id"),
        ("comm_open", {"comm_id": "c", "data": {}}, "a string target_name"),
        ("comm_msg", {"comm_id": "c" * 5000, "data": {}}, "more than 4096 bytes"),
    ],
)
def test_wrong_messages(client: Channels, kind: str, content: dict, part: str) -> None:
    msg_id = client.send(kind, content)
    messages = client.receive_until(msg_id, "status", execution_state="idle")
    (error,) = contents(messages, "error")
    assert error["ename"] == "ValueError" and part in error["evalue"]
    assert value_of(client.run("1")) == "1"


def test_errors_of_handlers(client: Channels) -> None:
    """The error belongs to the message. Cells that wait behind it run."""
    model = model_of(client.run(SLIDER + "slider.observe(lambda change: 1 / 0, 'value')\nslider"))
    open_echo(client)
    client.run("def fail(message): raise KeyError('from a handler')\nlast.on_msg(fail)")
    for comm_id, name in ((model, "ZeroDivisionError"), ("e", "KeyError")):
        msg_id = client.send("comm_msg", state_message(comm_id, 10))
        request = client.execute("'runs'")
        messages = client.receive_until(msg_id, "status", execution_state="idle")
        (error,) = contents(messages, "error")
        assert error["ename"] == name
        assert "ipybox_kernel" not in "".join(error["traceback"])
        messages = client.receive_until(request, "status", execution_state="idle")
        assert value_of(messages) == "'runs'"
    client.run(
        "def bad(c, message): raise KeyError('at open')\n"
        "comm.get_comm_manager().register_target('bad', bad)"
    )
    messages = tell(client, "b", {}, "comm_open", target_name="bad")
    assert [c["ename"] for c in contents(messages, "error")] == ["KeyError"]
    assert [c["comm_id"] for c in contents(messages, "comm_close")] == ["b"]
    # A handler cannot ask, because its front end does not answer.
    client.run("last.on_msg(lambda message: input('?'))")
    (error,) = contents(tell(client, "e", {}), "error")
    assert error["ename"] == "StdinNotImplementedError"


def test_interrupted_handlers(gateway: Gateway) -> None:
    kernel = gateway.start_kernel()
    with gateway.channels(kernel) as client:
        open_echo(client)
        client.run(
            "x = 1\nimport time\ndef wait(message):\n    print('begun', flush=True)\n"
            "    time.sleep(600)\nlast.on_msg(wait)"
        )
        msg_id = client.send("comm_msg", {"comm_id": "e", "data": {}})
        client.receive_until(msg_id, "stream")
        assert gateway.request("POST", f"/api/kernels/{kernel}/interrupt", {})[0] == 204
        messages = client.receive_until(msg_id, "status", execution_state="idle")
        assert [c["ename"] for c in contents(messages, "error")] == ["KeyboardInterrupt"]
        assert value_of(client.run("x")) == "1"


def test_kernel_that_dies_in_a_handler(client: Channels) -> None:
    open_echo(client)
    client.run("import os\nlast.on_msg(lambda message: os._exit(3))")
    messages = tell(client, "e", {})
    assert [c["ename"] for c in contents(messages, "error")] == ["DeadKernelError"]
    assert client.ask("comm_info_request", {})["comms"] == {}
    assert value_of(client.run("'comm' in globals()")) == "False"


def test_comms_of_tasks(client: Channels) -> None:
    """A task uses a comm after its cell has ended; it waits for messages of the client."""
    client.run(
        ECHO + "import asyncio\n"
        "async def wait_for(c):\n    answer = asyncio.get_running_loop().create_future()\n"
        "    c.on_msg(lambda message: answer.set_result(message['content']['data']))\n"
        "    c.send('ready')\n    c.send(await answer)\n"
        "c = comm.create_comm('task', comm_id='t')\ntask = asyncio.ensure_future(wait_for(c))"
    )
    (message,) = next_of_type(client, "comm_msg")
    assert message["content"]["data"] == "ready"
    request = message["parent_header"]
    client.send("comm_msg", {"comm_id": "t", "data": "the answer"})
    (message,) = next_of_type(client, "comm_msg")
    assert message["content"] == {"comm_id": "t", "data": "the answer"}
    # Both belong to the cell that started the task.
    assert message["parent_header"] == request and request["msg_type"] == "execute_request"


def next_of_type(client: Channels, msg_type: str) -> list[dict]:
    received: list[dict] = []
    while not received:
        received = of_type([client.receive()], msg_type)
    return received


def test_output_widget_in_threads(client: Channels, workspace: Path) -> None:
    """A thread captures its own output, which has the request as parent that started it."""
    open_echo(client)
    client.run(
        "import ipywidgets, threading, time\nout = ipywidgets.Output()\ngo = threading.Event()\n"
        "def work():\n    go.wait()\n    with out: print('captured')\n"
        "def start(message): threading.Thread(target=work).start()\nlast.on_msg(start)"
    )
    starts = client.send("comm_msg", {"comm_id": "e", "data": {}})
    client.receive_until(starts, "status", execution_state="idle")
    client.run("1")
    client.execute("go.set()")
    (message,) = next_of_type(client, "comm_msg")
    assert message["content"]["data"]["state"]["msg_id"] == starts
    assert message["parent_header"]["msg_id"] == starts
    (message,) = next_of_type(client, "stream")
    assert message["content"]["text"] == "captured\n"
    assert message["parent_header"]["msg_id"] == starts


def test_many_messages(client: Channels) -> None:
    """10,000 each way; none is lost, and the order is kept. They come while a cell runs."""
    open_echo(client)
    msg_id = client.execute("meet = input()", allow_stdin=True)
    client.receive_until(msg_id, "input_request")
    for i in range(1, 10_001):
        client.send("comm_msg", {"comm_id": "e", "data": i})
    client.send("input_reply", {"value": ""}, "stdin")
    received: list[dict] = []
    while len(received) < 10_000:
        received += contents([client.receive()], "comm_msg")
    assert [c["data"] for c in received] == list(range(1, 10_001))
    messages = client.run("for i in range(1, 10_001): last.send(i)")
    assert [c["data"] for c in contents(messages, "comm_msg")] == list(range(1, 10_001))


def test_too_many_messages(client: Channels) -> None:
    """While a cell runs, 20,000 wait. What is beyond is refused, and cells are not."""
    open_echo(client)
    msg_id = client.execute("meet = input()", allow_stdin=True)
    client.receive_until(msg_id, "input_request")
    for i in range(20_000):
        client.send("comm_msg", {"comm_id": "unknown", "data": i})
    last = client.send("comm_msg", {"comm_id": "e", "data": "one too many"})
    (error,) = contents(client.receive_until(last, "error"), "error")
    assert error["evalue"] == "too many requests wait for this kernel"
    request = client.execute("'runs'")
    client.send("input_reply", {"value": ""}, "stdin")
    messages = client.receive_until(request, "status", execution_state="idle")
    assert value_of(messages) == "'runs'"


def test_many_comms(client: Channels) -> None:
    client.run("import comm\ncomms = [comm.create_comm('t') for _ in range(3000)]")
    assert len(client.ask("comm_info_request", {"target_name": "t"})["comms"]) == 3000
    code = (
        "manager = get_ipython().kernel.comm_manager\nopen_comms = manager.comms\n"
        "manager.comms = dict.fromkeys(range(100_000))\ntry: comm.create_comm('t')\n"
        "finally: manager.comms = open_comms"
    )
    (error,) = contents(client.run(code), "error")
    assert "100000 comms are open" in error["evalue"]


def test_children_do_not_use_comms(client: Channels) -> None:
    open_echo(client)
    messages = client.run(
        "import os\npid = os.fork()\nif pid == 0:\n    last.send('from a child')\n    os._exit(0)\n"
        "os.waitpid(pid, 0)[1]"
    )
    assert value_of(messages) == "0" and not contents(messages, "comm_msg")


def test_comms_of_ipykernel(client: Channels) -> None:
    """Bokeh and `%matplotlib notebook` take the class Comm of ipykernel, if it is installed."""
    messages = client.run("from ipykernel.comm import Comm\nc = Comm('old', data={'a': 1})")
    assert [c["data"] for c in contents(messages, "comm_open")] == [{"a": 1}]
    # This module replaces the functions of the package `comm`.
    code = "import ipykernel.ipkernel, comm\nd = comm.create_comm('new', data={'b': 2})"
    assert [c["data"] for c in contents(client.run(code), "comm_open")] == [{"b": 2}]
    code = (
        "manager = get_ipython().kernel.comm_manager\nmanager.comms == {c.comm_id: c, d.comm_id: d}"
    )
    assert value_of(client.run(code)) == "True"
    assert value_of(client.run("import ipykernel.zmqshell as z\nz.KernelMagics.__name__")) == (
        "'KernelMagics'"
    )


def test_modules_named_comm(client: Channels, workspace: Path) -> None:
    """A module of the user with the name of the package."""
    client.run("open('comm.py', 'w').write('x = 1')\nimport sys\nsys.path.insert(0, '.')")
    assert value_of(client.run("import comm\ncomm.x")) == "1"
    messages = tell(client, "c", {}, "comm_open", target_name="t")
    assert contents(messages, "comm_close") == [{"comm_id": "c", "data": {}}]


# ZeroMQ


@pytest.fixture
def scenario(run_ipybox: Any, place: harness.Place, widgets_python: str) -> Callable[[str], Any]:
    """Runs a scenario of zmq_program.py with a kernelspec whose Python has widgets."""
    place.environ["JUPYTER_DATA_DIR"] = str(place.workspace / "jupyter")
    place.environ["JUPYTER_RUNTIME_DIR"] = str(place.workspace / "runtime")
    done = run_ipybox("kernelspec", "install", "--python", widgets_python)
    assert done.returncode == 0, done.stderr

    def run(name: str) -> Any:
        done = harness.run([str(jupyter_python()), PROGRAM, name, "ipybox"], place, timeout=240)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return run


def test_zmq(scenario: Callable[[str], Any]) -> None:
    outcome = scenario("comms")
    assert outcome["slider"] == [["stream", "changed to 7\n"]]
    assert outcome["echo"] == [[[], []], [["00ff", ""], [1]], [["78"] * 1000, [2]]]
    assert outcome["large"] == 20_000_000
    assert outcome["comms"] == {"e": {"target_name": "echo"}}
    assert outcome["closed"] == [["stream", "closed with {}\n"]]


def test_notebooks_with_widgets(scenario: Callable[[str], Any]) -> None:
    """nbclient keeps the state of widgets, and what Output widgets capture."""
    outcome = scenario("notebook")
    assert outcome["cells"] == ["before\nafter\n"]
    assert outcome["captured"] == [[{"name": "stdout", "output_type": "stream", "text": "two\n"}]]
    assert outcome["values"] == [5]
