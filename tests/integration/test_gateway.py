# SPDX-License-Identifier: Apache-2.0
"""`ipybox gateway`, as other clients see it: Jupyter's REST and WebSocket interface."""

from __future__ import annotations

import base64
import http.client
import json
import os
import re
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import harness
import pytest
import scripted_server
from gateway_driver import Gateway, contents, types
from meeting import DIE, Meeting, run_while_idle, wait_until_reaped
from server_process import jupyter_python, jupyter_server
from websockets.exceptions import ConnectionClosed, InvalidStatus

ESCAPE = re.compile(r"\x1b\[[0-9;]*m")


@pytest.fixture
def gateway(ipybox: str, place: harness.Place, python: str) -> Iterator[Gateway]:
    with Gateway(ipybox, place, "--python", python) as gateway:
        yield gateway


@pytest.fixture
def start(ipybox: str, place: harness.Place, python: str) -> Callable[..., Gateway]:
    """start("--token-file=…") is a gateway, as a context manager."""
    return lambda *args: Gateway(ipybox, place, "--python", python, *args)


def test_rest(gateway: Gateway) -> None:
    status, api = gateway.request("GET", "/api")
    assert status == 200 and api["version"]
    status, specs = gateway.request("GET", "/api/kernelspecs")
    assert status == 200 and specs["default"] == "python3"
    assert specs["kernelspecs"]["python3"]["spec"]["language"] == "python"
    assert gateway.request("GET", "/api/kernelspecs/python3") == (
        200,
        specs["kernelspecs"]["python3"],
    )
    assert gateway.request("GET", "/api/kernelspecs/julia")[0] == 404
    assert gateway.request("GET", "/api/kernels") == (200, [])

    status, model = gateway.request("POST", "/api/kernels", {"name": "python3"})
    assert status == 201
    assert {"id", "name", "last_activity", "execution_state", "connections"} <= model.keys()
    assert (model["name"], model["execution_state"], model["connections"]) == (
        "python3",
        "starting",
        0,
    )
    assert gateway.request("GET", "/api/kernels") == (200, [model])
    path = f"/api/kernels/{model['id']}"
    assert gateway.request("GET", path) == (200, model)
    with gateway.channels(model["id"]) as client:
        client.run("1")
        status, model = gateway.request("GET", path)
        assert (model["execution_state"], model["connections"]) == ("idle", 1)
    assert gateway.request("DELETE", path) == (204, None)
    assert gateway.request("GET", path)[0] == 404
    assert gateway.request("DELETE", path)[0] == 404
    assert gateway.request("POST", f"{path}/interrupt", {})[0] == 404


def test_start_without_body(gateway: Gateway) -> None:
    assert gateway.request("POST", "/api/kernels")[0] == 201


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"name": "julia"}, 404),
        ({"name": 1}, 400),
        ([], 400),
        ({"name": None}, 201),
        ({"working_dir": None}, 201),
        ({"working_dir": 1}, 400),
        ({"working_dir": "."}, 400),
        ({"working_dir": "/nowhere"}, 400),
        ({"working_dir": "/dev/null"}, 400),
        ({"rich": None}, 201),
        ({"rich": "no"}, 400),
    ],
)
def test_start_bodies(gateway: Gateway, body: object, status: int) -> None:
    assert gateway.request("POST", "/api/kernels", body)[0] == status


@pytest.mark.parametrize("v1", [False, True], ids=["json", "v1"])
def test_execute(gateway: Gateway, v1: bool) -> None:
    with gateway.channels(gateway.start_kernel(), v1=v1) as client:
        messages = client.run(
            "import sys\nfrom IPython.display import display, clear_output\nprint('out')\n"
            "print('err', file=sys.stderr)\n"
            "handle = display({'text/plain': 'a', 'application/x': 'Yg=='}, raw=True, "
            "display_id='d')\n"
            "handle.update({'text/plain': 'b'}, raw=True)\nclear_output(wait=True)\n{'é': 2**70}"
        )
        wanted = [
            "busy",
            "execute_input",
            "stream",
            "stream",
            "display_data",
            "update_display_data",
            "clear_output",
        ]
        assert types(messages) == [*wanted, "execute_result", "execute_reply", "idle"]
        by_type = {message["header"]["msg_type"]: message["content"] for message in messages}
        assert contents(messages, "stream") == [
            {"name": "stdout", "text": "out\n"},
            {"name": "stderr", "text": "err\n"},
        ]
        assert by_type["display_data"]["data"] == {"text/plain": "a", "application/x": "Yg=="}
        assert by_type["display_data"]["transient"] == {"display_id": "d"}
        assert by_type["update_display_data"]["transient"] == {"display_id": "d"}
        assert by_type["clear_output"] == {"wait": True}
        assert by_type["execute_result"]["data"] == {"text/plain": "{'é': 1180591620717411303424}"}
        assert by_type["execute_reply"]["status"] == "ok"
        assert {
            content["execution_count"]
            for content in by_type.values()
            if "execution_count" in content
        } == {1}

        messages = client.run("1 / 0")
        assert types(messages) == ["busy", "execute_input", "error", "execute_reply", "idle"]
        error, reply = contents(messages, "error")[0], contents(messages, "execute_reply")[0]
        assert (error["ename"], error["evalue"]) == ("ZeroDivisionError", "division by zero")
        assert "1 / 0" in ESCAPE.sub("", "\n".join(error["traceback"]))
        assert (reply["status"], reply["ename"], reply["execution_count"]) == (
            "error",
            "ZeroDivisionError",
            2,
        )


def test_plot(gateway: Gateway, workspace: Path) -> None:
    with gateway.channels(gateway.start_kernel(), v1=True) as client:
        messages = client.run("import matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.show()")
        (display,) = contents(messages, "display_data")
        assert base64.b64decode(display["data"]["image/png"]).startswith(b"\x89PNG")
    assert not (workspace / "images").exists()  # the client that asked has it


def test_large_output_with_slow_reader(gateway: Gateway) -> None:
    with gateway.channels(gateway.start_kernel()) as client:
        msg_id = client.execute("for i in range(200_000): print(i, 'x' * 90)")
        # Nothing is read until the kernel has filled every buffer on the way.
        client.socket.ping().wait(60)
        messages = client.receive_until(msg_id, "status", execution_state="idle")
        text = "".join(content["text"] for content in contents(messages, "stream"))
        assert text.splitlines() == [f"{i} {'x' * 90}" for i in range(200_000)]


def test_working_dir(gateway: Gateway) -> None:
    status, model = gateway.request("POST", "/api/kernels", {"working_dir": "/usr"})
    assert (status, model["working_dir"]) == (201, "/usr")
    assert gateway.request("GET", f"/api/kernels/{model['id']}")[1]["working_dir"] == "/usr"
    with gateway.channels(model["id"]) as client:
        messages = client.run("import os; print(os.getcwd()); os.chdir('/')")
        text = "".join(content["text"] for content in contents(messages, "stream"))
        assert text == "/usr\n[ipybox] cwd reset to /usr\n"


def test_several_clients(gateway: Gateway) -> None:
    kernel = gateway.start_kernel()
    with gateway.channels(kernel) as one, gateway.channels(kernel, v1=True) as two:
        msg_id = one.execute("x = 1; print('hello')")
        mine = one.receive_until(msg_id, "status", execution_state="idle")
        others = two.receive_until(msg_id, "status", execution_state="idle")
        assert types(mine) == ["busy", "execute_input", "stream", "execute_reply", "idle"]
        assert types(others) == ["busy", "execute_input", "stream", "idle"]
        assert contents(two.run("x + 1"), "execute_result")[0]["data"] == {"text/plain": "2"}
        # A cell continues when its client leaves.
        msg_id = one.execute("print('begun'); input_ = 1; import time; time.sleep(600)")
        two.receive_until(msg_id, "stream")
    with gateway.channels(kernel) as three:
        assert gateway.request("GET", f"/api/kernels/{kernel}")[1]["execution_state"] == "busy"
        assert gateway.request("POST", f"/api/kernels/{kernel}/interrupt", {}) == (204, None)
        three.receive_until(msg_id, "status", execution_state="idle")
        assert contents(three.run("x"), "execute_result")[0]["data"] == {"text/plain": "1"}


def test_questions(gateway: Gateway) -> None:
    with gateway.channels(gateway.start_kernel()) as client:
        info = client.ask("kernel_info_request", {})
        assert info["status"] == "ok" and info["protocol_version"].startswith("5.")
        assert info["language_info"]["name"] == "python" and info["language_info"][
            "version"
        ].startswith("3.")
        assert client.ask("kernel_info_request", {}, "control") == info
        client.run("answer = 42")
        completion = client.ask("complete_request", {"code": "answ", "cursor_pos": 4})
        assert completion["matches"] == ["answer"]
        assert (completion["cursor_start"], completion["cursor_end"]) == (0, 4)
        inspection = client.ask(
            "inspect_request", {"code": "answer", "cursor_pos": 3, "detail_level": 0}
        )
        assert inspection["found"] and "42" in ESCAPE.sub("", inspection["data"]["text/plain"])
        assert client.ask("is_complete_request", {"code": "if x:"})["status"] == "incomplete"
        history = client.ask(
            "history_request", {"hist_access_type": "tail", "n": 1, "raw": True, "output": False}
        )
        assert history["history"][-1][2] == "answer = 42"
        assert client.ask("comm_info_request", {})["comms"] == {}
        msg_id = client.send(
            "comm_open", {"comm_id": "c", "target_name": "jupyter.widget", "data": {}}
        )
        assert (
            contents(client.receive_until(msg_id, "comm_close"), "comm_close")[0]["comm_id"] == "c"
        )
        assert client.ask("debug_request", {}, "control")["status"] == "error"
        reply = client.ask(
            "execute_request", {"code": "1", "silent": True, "user_expressions": {"a": "answer"}}
        )
        assert reply["user_expressions"]["a"]["data"] == {"text/plain": "42"}


@pytest.mark.parametrize("way", ["rest", "control"])
def test_interrupt(gateway: Gateway, way: str) -> None:
    kernel = gateway.start_kernel()
    with gateway.channels(kernel) as client:
        client.run("x = 1")
        msg_id = client.execute("print('begun')\nwhile True: pass")
        waiting = client.execute("never()")
        client.receive_until(msg_id, "stream")
        if way == "rest":
            assert gateway.request("POST", f"/api/kernels/{kernel}/interrupt", {}) == (204, None)
        else:
            client.send("interrupt_request", {}, "control")
        messages = client.receive_until(msg_id, "status", execution_state="idle")
        assert contents(messages, "error")[0]["ename"] == "KeyboardInterrupt"
        messages = client.receive_until(waiting, "status", execution_state="idle")
        assert contents(messages, "execute_reply")[0]["status"] == "aborted"
        assert contents(client.run("x"), "execute_result")[0]["data"] == {"text/plain": "1"}


def test_an_interrupt_that_the_cell_handles(gateway: Gateway) -> None:
    """The cell has succeeded, so the cells that wait behind it run."""
    kernel = gateway.start_kernel()
    with gateway.channels(kernel) as client:
        msg_id = client.execute(
            "try:\n    print('begun', flush=True)\n    while True: pass\n"
            "except KeyboardInterrupt: pass\nx = 5"
        )
        waiting = client.execute("x")
        client.receive_until(msg_id, "stream")
        assert gateway.request("POST", f"/api/kernels/{kernel}/interrupt", {}) == (204, None)
        messages = client.receive_until(msg_id, "status", execution_state="idle")
        assert (
            contents(messages, "error") == []
            and contents(messages, "execute_reply")[0]["status"] == "ok"
        )
        messages = client.receive_until(waiting, "status", execution_state="idle")
        assert contents(messages, "execute_result")[0]["data"] == {"text/plain": "5"}


def test_a_value_that_cannot_be_shown(gateway: Gateway) -> None:
    """As in IPython's own kernel: an error, and the representations that could be made."""
    with gateway.channels(gateway.start_kernel()) as client:
        messages = client.run("class A:\n    def __repr__(self): raise ValueError('no repr')\nA()")
        assert (
            contents(messages, "error")[0]["evalue"] == "no repr"
            and contents(messages, "execute_result") == []
        )
        assert contents(messages, "execute_reply")[0]["status"] == "error"
        messages = client.run(
            "class B:\n    def _repr_html_(self): raise ValueError('no html')\n"
            "    __repr__ = lambda self: 'B!'\nB()"
        )
        assert contents(messages, "error")[0]["evalue"] == "no html"
        assert contents(messages, "execute_result")[0]["data"] == {"text/plain": "B!"}
        assert contents(messages, "execute_reply")[0]["status"] == "error"


def test_bundles_are_as_they_were(gateway: Gateway) -> None:
    """Only results that are text show other representations instead of a class's name."""
    with gateway.channels(gateway.start_kernel()) as client:
        messages = client.run("from IPython.display import Markdown; Markdown('# T')")
        assert contents(messages, "execute_result")[0]["data"] == {
            "text/plain": "<IPython.core.display.Markdown object>",
            "text/markdown": "# T",
        }


@pytest.mark.parametrize("v1", [False, True])
def test_notices_are_on_stderr_of_a_cell_that_is_seen(
    gateway: Gateway, place: harness.Place, v1: bool
) -> None:
    """They are marked, so that a client can distinguish them from the cell's output."""
    with gateway.channels(gateway.start_kernel(), v1=v1) as client:
        go = Meeting(place.workspace / "go")
        (printed,) = contents(client.run(run_while_idle(go, DIE)), "stream")
        go.wait()
        wait_until_reaped(printed["text"].strip())
        assert contents(client.run("1", silent=True), "stream") == []
        messages = client.run("import sys; print('{}', file=sys.stderr)")
        notice, own = (message for message in messages if message["header"]["msg_type"] == "stream")
        assert notice["content"]["name"] == own["content"]["name"] == "stderr"
        assert notice["content"]["text"].startswith(
            "[ipybox] while idle, the kernel was killed by SIGKILL"
        )
        assert notice["metadata"] == {"ipybox": {"notice": True}} and own["metadata"] == {}


def test_restart(gateway: Gateway) -> None:
    kernel = gateway.start_kernel()
    with gateway.channels(kernel) as client:
        client.run("x = 1")
        status, model = gateway.request("POST", f"/api/kernels/{kernel}/restart", {})
        assert (status, model["id"]) == (200, kernel)
        msg_id = client.execute("x")
        messages = [client.receive()]
        while (
            messages[-1]["content"] != {"execution_state": "idle"}
            or messages[-1]["parent_header"].get("msg_id") != msg_id
        ):
            messages.append(client.receive())
        # For front ends that status means that the kernel has died.
        assert "restarting" not in types(messages)
        assert contents(messages, "error")[0]["ename"] == "NameError"
        assert contents(messages, "execute_input")[0]["execution_count"] == 1


def test_restart_while_a_cell_runs(gateway: Gateway) -> None:
    kernel = gateway.start_kernel()
    with gateway.channels(kernel) as client:
        msg_id = client.execute("print('begun')\nimport time\ntime.sleep(600)")
        client.receive_until(msg_id, "stream")
        gateway.request("POST", f"/api/kernels/{kernel}/restart", {})
        messages = client.receive_until(msg_id, "status", execution_state="idle")
        assert "restarting" not in types(messages) and contents(messages, "error")
        # A death after that is reported as one.
        messages = client.run("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)")
        assert "restarting" in types(messages)


def test_death(gateway: Gateway) -> None:
    with gateway.channels(gateway.start_kernel()) as client:
        messages = client.run("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)")
        assert types(messages)[-4:] == ["error", "restarting", "execute_reply", "idle"]
        assert "SIGSEGV" in contents(messages, "error")[0]["evalue"]
        assert contents(client.run("1 + 1"), "execute_result")[0]["data"] == {"text/plain": "2"}


def test_delete_tells_clients(gateway: Gateway) -> None:
    kernel = gateway.start_kernel()
    with gateway.channels(kernel) as client:
        msg_id = client.execute("print('begun')\nimport time\ntime.sleep(600)")
        client.receive_until(msg_id, "stream")
        assert gateway.request("DELETE", f"/api/kernels/{kernel}") == (204, None)
        assert client.receive()["content"] == {"execution_state": "dead"}
        with pytest.raises(ConnectionClosed) as closed:
            client.receive()
        assert closed.value.rcvd.code == 1001
    with pytest.raises(InvalidStatus) as refused, gateway.channels(kernel):
        pass
    assert refused.value.response.status_code == 404


@pytest.mark.parametrize(
    ("frame", "v1"),
    [
        ("{", False),
        ('{"header":{}}', False),
        (b"\0\0\0\xff", False),
        ("text", True),
        (b"\xff" * 64, True),
        (b"", True),
    ],
)
def test_bad_messages(gateway: Gateway, frame: str | bytes, v1: bool) -> None:
    kernel = gateway.start_kernel()
    with gateway.channels(kernel, v1=v1) as client, gateway.channels(kernel) as other:
        client.socket.send(frame)
        with pytest.raises(ConnectionClosed) as closed:
            client.socket.recv(timeout=60)
        assert closed.value.rcvd.code == 1008 and closed.value.rcvd.reason
        assert types(other.run("1"))[-1] == "idle"


def test_limit_of_kernels(start: Callable[..., Gateway]) -> None:
    with start("--max-kernels=1") as gateway:
        kernel = gateway.start_kernel()
        status, answer = gateway.request("POST", "/api/kernels", {})
        assert status == 403 and "no more" in answer["message"]
        with gateway.channels(kernel) as client:
            gateway.request("DELETE", f"/api/kernels/{kernel}")
            with pytest.raises(ConnectionClosed):
                while True:
                    client.receive()
        while gateway.request("POST", "/api/kernels", {})[0] == 403:
            pass  # it is still ending


def test_culling(start: Callable[..., Gateway]) -> None:
    """An idle kernel ends; with a client it ends only with --cull-connected. Both wait at once."""
    with (
        start("--cull-idle=10") as gateway,
        start("--cull-idle=10", "--cull-connected") as strict,
    ):
        left, used = gateway.start_kernel(), gateway.start_kernel()
        with (
            gateway.channels(used) as client,
            strict.channels(strict.start_kernel()) as connected,
        ):
            client.run("1")
            connected.run("1")
            while [model["id"] for model in gateway.request("GET", "/api/kernels")[1]] != [used]:
                pass
            assert gateway.request("GET", f"/api/kernels/{left}")[0] == 404
            client.run("1")
            with pytest.raises(ConnectionClosed):
                while True:
                    connected.receive()


def test_token(start: Callable[..., Gateway], workspace: Path) -> None:
    (workspace / "token").write_text("secret\n")
    with start("--token-file=token") as gateway:
        assert gateway.request("GET", "/api/kernels")[0] == 401
        assert gateway.request("GET", "/api/kernels", Authorization="token wrong")[0] == 401
        assert gateway.request("GET", "/api/kernels?token=wrong")[0] == 401
        assert gateway.request("GET", "/api/kernels", Authorization="token secret")[0] == 200
        assert gateway.request("GET", "/api/kernels", Authorization="Bearer secret")[0] == 200
        assert gateway.request("GET", "/api/kernels?token=secret")[0] == 200
        status, model = gateway.request("POST", "/api/kernels?token=secret", {})
        with pytest.raises(InvalidStatus) as refused, gateway.channels(model["id"]):
            pass
        assert refused.value.response.status_code == 401
        with gateway.channels(
            model["id"], additional_headers={"Authorization": "token secret"}
        ) as client:
            client.run("1")
        with gateway.channels(model["id"], query="?token=secret") as client:
            client.run("1")


@pytest.mark.parametrize("headers", [{"Host": "evil.example"}, {"Origin": "http://evil.example"}])
def test_browsers_are_refused(gateway: Gateway, headers: dict[str, str]) -> None:
    assert gateway.request("GET", "/api/kernels", **headers)[0] == 403
    assert gateway.request("POST", "/api/kernels", {}, **headers)[0] == 403


def test_forms_are_refused(gateway: Gateway) -> None:
    """A web page can send these without a preflight request."""
    with socket.create_connection(("127.0.0.1", gateway.port)) as connection:
        connection.sendall(
            f"POST /api/kernels HTTP/1.1\r\nHost: 127.0.0.1:{gateway.port}\r\n"
            "Content-Type: text/plain\r\nContent-Length: 2\r\n\r\n{}".encode()
        )
        assert connection.recv(100).split()[1] == b"415"


def ask(
    gateway: Gateway, method: str, path: str, body: str | None = None, **headers: str
) -> tuple[int, dict[str, str]]:
    """Status and headers of the response. Headers are sent as given."""
    connection = http.client.HTTPConnection("127.0.0.1", gateway.port, timeout=60)
    connection.request(
        method, path, body, {name.replace("_", "-"): value for name, value in headers.items()}
    )
    response = connection.getresponse()
    response.read()
    connection.close()
    return response.status, dict(response.getheaders())


def test_content_type_where_there_is_a_token(
    start: Callable[..., Gateway], workspace: Path
) -> None:
    """Tornado's client sends none.

    A web page needs a preflight request for the header, but not for the query.
    """
    (workspace / "token").write_text("secret\n")
    with start("--token-file=token") as gateway:
        for headers in ({}, {"Content_Type": "text/plain"}):
            assert (
                ask(gateway, "POST", "/api/kernels", "{}", Authorization="token secret", **headers)[
                    0
                ]
                == 201
            )
            assert ask(gateway, "POST", "/api/kernels?token=secret", "{}", **headers)[0] == 415
            assert (
                ask(gateway, "POST", "/api/kernels", "{}", Authorization="token wrong", **headers)[
                    0
                ]
                == 401
            )


PREFLIGHT = {
    "Access_Control_Request_Method": "POST",
    "Access_Control_Request_Headers": "authorization",
}


def test_preflight(start: Callable[..., Gateway], workspace: Path) -> None:
    (workspace / "token").write_text("secret\n")
    with start("--allow-origin=http://localhost:3000", "--token-file=token") as gateway:
        status, headers = ask(
            gateway, "OPTIONS", "/api/kernels", Origin="http://localhost:3000", **PREFLIGHT
        )
        assert status == 204 and headers["Access-Control-Allow-Origin"] == "http://localhost:3000"
        assert (
            "DELETE" in headers["Access-Control-Allow-Methods"]
            and "Authorization" in headers["Access-Control-Allow-Headers"]
        )
        assert headers["Vary"] == "Origin"
        # The response itself, also for errors.
        for token, expected in (("secret", 200), ("wrong", 401)):
            status, headers = ask(
                gateway,
                "GET",
                "/api",
                Origin="http://localhost:3000",
                Authorization=f"token {token}",
            )
            assert (status, headers["Access-Control-Allow-Origin"]) == (
                expected,
                "http://localhost:3000",
            )
        for refused in (
            {"Origin": "http://localhost:3001", **PREFLIGHT},
            {"Origin": "http://localhost:3000", "Host": "evil.example", **PREFLIGHT},
            {"Origin": "http://localhost:3000"},  # not one
            PREFLIGHT,
        ):
            status, headers = ask(gateway, "OPTIONS", "/api/kernels", **refused)
            assert status in (401, 403) and "Access-Control-Allow-Methods" not in headers, refused
        assert (
            "Access-Control-Allow-Origin"
            not in ask(gateway, "GET", "/api", Origin="http://localhost:3001")[1]
        )
        # Not from a page: there is only one origin that the answer could name.
        status, headers = ask(gateway, "GET", "/api", Authorization="token secret")
        assert (status, headers["Access-Control-Allow-Origin"], headers["Vary"]) == (
            200,
            "http://localhost:3000",
            "Origin",
        )


def test_requests_after_a_preflight_on_one_connection(start: Callable[..., Gateway]) -> None:
    with start("--allow-origin=http://localhost:3000") as gateway:
        connection = http.client.HTTPConnection("127.0.0.1", gateway.port, timeout=60)
        headers = {"Origin": "http://localhost:3000", "Access-Control-Request-Method": "POST"}
        for method, expected in (("OPTIONS", 204), ("GET", 200), ("OPTIONS", 204)):
            connection.request(method, "/api", headers=headers)
            response = connection.getresponse()
            response.read()
            assert response.status == expected
            sock = connection.sock
        assert sock is not None
        connection.close()


def test_origins(start: Callable[..., Gateway]) -> None:
    with start("--allow-origin=http://localhost:3000") as gateway:
        assert gateway.request("GET", "/api", Origin="http://localhost:3000")[0] == 200
        assert gateway.request("GET", "/api", Origin="http://localhost:3001")[0] == 403
        # Jupyter's own WebSocket clients send the server's address as their Origin.
        assert gateway.request("GET", "/api", Origin=f"http://127.0.0.1:{gateway.port}")[0] == 200


def test_environment(ipybox: str, place: harness.Place, python: str) -> None:
    place.environ.update({"KERNEL_ENV_NAME": "given", "SECRET": "kept"})
    with Gateway(ipybox, place, "--python", python) as gateway:
        kernel = gateway.start_kernel(env={"KERNEL_USERNAME": "me", "LD_PRELOAD": "evil.so"})
        with gateway.channels(kernel) as client:
            messages = client.run(
                "import os\n"
                "[os.environ.get(n) for n in ('NAME', 'SECRET', 'KERNEL_USERNAME', "
                "'LD_PRELOAD')]"
            )
        assert (
            contents(messages, "execute_result")[0]["data"]["text/plain"]
            == "['given', None, 'me', None]"
        )


class ToolServer(BaseHTTPRequestHandler):
    """Keeps the requests that it receives."""

    requests: list[tuple[str, dict[str, str], dict]]

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.requests.append((self.path, dict(self.headers.items()), body))
        answer = json.dumps({"result": "fetched"}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def tool_server() -> Iterator[HTTPServer]:
    ToolServer.requests = []
    with HTTPServer(("127.0.0.1", 0), ToolServer) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


CALL = """
from ipybox.tool_exec.client import ToolRunner
runner = ToolRunner(server_name="web", server_params={"command": "evil"})
print(runner.run_sync("fetch", {"n": 2**70}))
"""


@pytest.mark.parametrize("sandbox", [(), ("--sandbox",)], ids=["free", "sandbox"])
def test_tools(
    ipybox: str, place: harness.Place, python: str, tool_server: HTTPServer, sandbox: tuple[str]
) -> None:
    """A kernel's calls go to the tool server of the gateway, in the role of a kernel."""
    place.environ["KERNEL_ENV_TOOL_SERVER_HOST"] = "127.0.0.1"
    place.environ["KERNEL_ENV_TOOL_SERVER_PORT"] = str(tool_server.server_port)
    place.environ["KERNEL_ENV_IPYBOX_TOOL_TOKEN"] = "tool token"
    with (
        Gateway(ipybox, place, "--python", python, *sandbox) as gateway,
        gateway.channels(gateway.start_kernel()) as client,
    ):
        messages = client.run(CALL)
        assert contents(messages, "stream") == [{"name": "stdout", "text": "fetched\n"}]
        assert contents(client.run("import os\n'tool token' in str(os.environ)"), "execute_result")
    ((path, headers, body),) = ToolServer.requests
    assert path == "/run" and body["tool_args"] == {"n": 2**70}
    assert headers["Ipybox-Role"] == "kernel"
    assert headers["Authorization"] == "Bearer tool token"


@pytest.mark.parametrize("sandbox", [(), ("--sandbox",)], ids=["free", "sandbox"])
def test_tool_server(
    ipybox: str,
    place: harness.Place,
    python: str,
    run_ipybox: Callable[..., subprocess.CompletedProcess[str]],
    sandbox: tuple[str],
) -> None:
    """Our own tool server: a generated package calls what the application registered, and nothing
    else.
    """
    params = scripted_server.params("hostile", command=os.path.realpath(sys.executable))
    made = run_ipybox(
        "apigen",
        "--server-name=fake",
        f"--server-params={json.dumps(params)}",
        "--root-dir=mcptools",
    )
    assert made.returncode == 0, made.stderr
    server = subprocess.Popen(
        [ipybox, "tool-server", "--port=0"],
        cwd=place.workspace,
        env=place.environ,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    place.environ["KERNEL_ENV_TOOL_SERVER_PORT"] = str(json.loads(server.stdout.readline())["port"])
    evil = {"server_name": "evil", "server_params": {"command": "touch", "args": ["made"]}}
    with (
        Gateway(ipybox, place, "--python", python, *sandbox) as gateway,
        gateway.channels(gateway.start_kernel()) as client,
    ):
        messages = client.run(
            "from mcptools.fake import echo\nprint(echo.run(echo.Params(text='hello')))"
        )
        assert contents(messages, "error") == []
        assert "hello" in contents(messages, "stream")[0]["text"]
        messages = client.run(
            "from ipybox.tool_exec.client import ToolRunner\n"
            f"ToolRunner(**{evil!r}).run_sync('touch', {{}})"
        )
        assert contents(messages, "error")[0]["ename"] == "ToolRunnerError"
        # A kernel does not see the paths of the application.
        messages = client.run(
            "import os, urllib.request, urllib.error\n"
            "base = 'http://{TOOL_SERVER_HOST}:{TOOL_SERVER_PORT}'.format(**os.environ)\n"
            "def ask(method, path):\n"
            "    headers = {'Authorization': 'Bearer ' + os.environ.get('IPYBOX_TOOL_TOKEN', "
            "''), 'Content-Type': 'application/json'}\n"
            "    try: return urllib.request.urlopen(urllib.request.Request(base + path, "
            "b'{}' if method != 'GET' else None, headers, method=method)).status\n"
            "    except urllib.error.HTTPError as error: return error.code\n"
            "[ask(*what) for what in (('GET', '/status'), ('PUT', '/reset'), ('POST', "
            "'/approve'), ('GET', '/approval'))]"
        )
        assert (
            contents(messages, "execute_result")[0]["data"]["text/plain"] == "[404, 404, 404, 404]"
        )
    server.stdin.close()
    assert server.wait(30) == 0
    server.stdout.close()
    assert not (place.workspace / "made").exists()


def test_no_tool_server(ipybox: str, place: harness.Place, python: str) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        place.environ["KERNEL_ENV_TOOL_SERVER_PORT"] = str(unused.getsockname()[1])
        with (
            Gateway(ipybox, place, "--python", python) as gateway,
            gateway.channels(gateway.start_kernel()) as client,
        ):
            (error,) = contents(client.run(CALL), "error")
            assert "tool server cannot be reached" in error["evalue"]


def test_sandbox(start: Callable[..., Gateway], place: harness.Place) -> None:
    (place.home / "secret").write_text("x")
    with start("--sandbox") as gateway, gateway.channels(gateway.start_kernel()) as client:
        client.run("open('inside', 'w').write('1')")
        messages = client.run("open('/usr/outside', 'w')")
        assert contents(messages, "error")[0]["ename"] in ("OSError", "PermissionError")
    assert (place.workspace / "inside").exists()


def test_refusals(
    run_ipybox: Callable[..., subprocess.CompletedProcess[str]], gateway: Gateway
) -> None:
    for arguments, status, part in (
        (["--host=0.0.0.0"], 2, "set a token"),
        (["--port=70000"], 2, "--port"),
        (["--max-kernels=0"], 2, "--max-kernels"),
        (["--token-file=none"], 1, "none"),
        (["--workspace=nowhere"], 1, "nowhere does not exist: create the directory first"),
        (["--workspace=/dev/null"], 1, "/dev/null is not a directory"),
        ([f"--port={gateway.port}"], 1, str(gateway.port)),
        (["word"], 2, "word"),
    ):
        result = run_ipybox("gateway", *arguments)
        assert (result.returncode, part in result.stderr) == (status, True), (
            arguments,
            result.stderr,
        )


def test_jupyter(gateway: Gateway, place: harness.Place) -> None:
    """A Jupyter server with our gateway runs a notebook with plots, completes and interrupts."""
    program = str(Path(__file__).with_name("jupyter_program.py"))
    arguments = ["--ServerApp.disable_check_xsrf=True"]
    arguments += [f"--gateway-url=http://127.0.0.1:{gateway.port}"]
    with jupyter_server(place.workspace, place.environ, "", *arguments) as port:
        command = [str(jupyter_python()), program, f"http://127.0.0.1:{port}", "", "python3"]
        result = harness.run(command, place, timeout=240)
        assert result.returncode == 0, result.stderr
    outcome = json.loads(result.stdout)
    plot, updated, last = outcome["outputs"]
    assert plot[0] == {"output_type": "stream", "name": "stdout", "text": "one\n"}
    assert base64.b64decode(plot[1]["data"]["image/png"]).startswith(b"\x89PNG")
    assert updated[0]["data"]["text/html"] == "<b>second</b>"
    assert last[-1]["data"]["text/plain"] == "42" and last[-1]["execution_count"] == 3
    assert outcome["failure"] == "ZeroDivisionError"
    assert "collections" in outcome["completion"]["matches"]
    assert outcome["inspection"]["found"] and outcome["completeness"]["status"] == "incomplete"
    assert outcome["interrupted"]["ename"] == "KeyboardInterrupt"
    assert outcome["after"]["status"] == "ok"
    assert gateway.request("GET", "/api/kernels") == (200, [])


def test_nbconvert(start: Callable[..., Gateway], place: harness.Place) -> None:
    """As in the how-to: a notebook of another machine, through a base URL.

    The class's WebSocket sends no token, so the gateway has none.
    """
    cells = ["print('one')", "import os; os.environ['KERNEL_GATEWAY']"]
    notebook = {
        "nbformat": 4,
        "nbformat_minor": 5,
        "metadata": {"kernelspec": {"name": "conda-x", "display_name": "x"}},
        "cells": [
            {
                "id": f"c{number}",
                "cell_type": "code",
                "source": source,
                "metadata": {},
                "outputs": [],
                "execution_count": None,
            }
            for number, source in enumerate(cells)
        ],
    }
    (place.workspace / "in.ipynb").write_text(json.dumps(notebook))
    manager = "jupyter_server.gateway.managers.GatewayKernelManager"
    with start("--base-url=/some/path", "--force-kernel-name") as gateway:
        place.environ["JUPYTER_GATEWAY_URL"] = f"http://localhost:{gateway.port}/some/path"
        command = [str(jupyter_python()), "-m", "nbconvert", "--to=notebook", "--execute"]
        command += [f"--ExecutePreprocessor.kernel_manager_class={manager}"]
        result = harness.run([*command, "in.ipynb", "--output=out.ipynb"], place, timeout=240)
        assert result.returncode == 0, result.stderr
        assert gateway.request("GET", "/some/path/api/kernels") == (200, [])
    printed, shown = json.loads((place.workspace / "out.ipynb").read_text())["cells"]
    assert printed["outputs"][0]["text"] == ["one\n"]
    assert shown["outputs"][0]["data"] == {"text/plain": ["'1'"]}
