# SPDX-License-Identifier: Apache-2.0
"""Options of `ipybox gateway` that Jupyter's kernel gateway has, too."""

from __future__ import annotations

import http.client
import json
import re
import socket
import subprocess
from collections.abc import Callable
from pathlib import Path

import harness
import pytest
from gateway_driver import Gateway, contents
from meeting import Meeting


@pytest.fixture
def start(ipybox: str, place: harness.Place, python: str) -> Callable[..., Gateway]:
    return lambda *args: Gateway(ipybox, place, "--python", python, *args)


@pytest.fixture
def token(workspace: Path) -> str:
    """The option that names the file with the token "secret"."""
    (workspace / "token").write_text("secret\n")
    return "--token-file=token"


def ask(gateway: Gateway, method: str, path: str, **headers: str) -> tuple[int, dict[str, str]]:
    """Status and headers of the answer."""
    connection = http.client.HTTPConnection("127.0.0.1", gateway.port, timeout=60)
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    connection.request(method, path, headers=names)
    response = connection.getresponse()
    response.read()
    connection.close()
    return response.status, dict(response.getheaders())


# --- the base URL ---------------------------------------------------------------------------------


@pytest.mark.parametrize("base", ["/fake/path", "/a%40b/"])
def test_base_url(start: Callable[..., Gateway], base: str) -> None:
    with start(f"--base-url={base}") as gateway:
        base = base.rstrip("/")
        for path in ("/api/kernels", base, f"{base}/", f"{base}api/kernels", f"{base}/x"):
            assert gateway.request("GET", path)[0] == 404, path
        status, model = gateway.request("POST", f"{base}/api/kernels", {})
        assert status == 201
        path = f"{base}/api/kernels/{model['id']}"
        assert gateway.request("GET", path)[0] == 200
        with gateway.channels(model["id"], base=base) as client:
            client.run("1")
        body = {"path": "a", "type": "file"}
        assert gateway.request("POST", f"{base}/api/sessions", body)[0] == 201
        assert gateway.request("POST", f"{path}/interrupt", {})[0] == 204
        assert gateway.request("DELETE", path)[0] == 204


@pytest.mark.parametrize("base", ["", "/", "/x"])
def test_location(start: Callable[..., Gateway], base: str) -> None:
    with start(*[f"--base-url={base}"] * bool(base)) as gateway:
        connection = http.client.HTTPConnection("127.0.0.1", gateway.port, timeout=60)
        root = base.rstrip("/")
        connection.request("POST", f"{root}/api/kernels")
        response = connection.getresponse()
        response.read()
        location = response.getheader("Location")
        connection.close()
        assert location.startswith(f"{root}/api/kernels/")
        assert gateway.request("GET", location)[0] == 200


# --- kernels --------------------------------------------------------------------------------------


def test_prespawn(start: Callable[..., Gateway]) -> None:
    with start("--prespawn=2", "--max-kernels=2") as gateway:
        status, kernels = gateway.request("GET", "/api/kernels")
        assert status == 200 and len(kernels) == 2
        for kernel in kernels:
            with gateway.channels(kernel["id"]) as client:
                client.run("1")
        assert gateway.request("POST", "/api/kernels", {})[0] == 403
        assert gateway.request("DELETE", f"/api/kernels/{kernels[0]['id']}")[0] == 204
        assert gateway.request("POST", "/api/kernels", {})[0] == 201


def test_records(
    start: Callable[..., Gateway], ipybox: str, workspace: Path, tmp_path: Path
) -> None:
    """Each kernel has its own, which cells in a sandbox cannot write."""
    with start("--record-dir=records/of-kernels", "--sandbox") as gateway:
        kernels = [gateway.start_kernel() for _ in range(2)]
        for number, kernel in enumerate(kernels):
            with gateway.channels(kernel) as client:
                client.run(f"print('cell of {number}')")
                code = "open('records/of-kernels/x', 'w')"
                msg_id = client.execute(code)
                assert client.receive_until(msg_id, "error")
    directory = workspace / "records/of-kernels"
    assert directory.stat().st_mode & 0o777 == 0o700
    assert sorted(path.name for path in directory.iterdir()) == sorted(
        f"{kernel}.jsonl" for kernel in kernels
    )
    for number, kernel in enumerate(kernels):
        record = directory / f"{kernel}.jsonl"
        assert record.stat().st_mode & 0o777 == 0o600
        notebook = tmp_path / f"{number}.md"
        subprocess.run([ipybox, "record", record, "--to", notebook], check=True, timeout=60)
        assert f"cell of {number}\n" in notebook.read_text()


def test_delete_answers_when_the_kernel_is_gone(start: Callable[..., Gateway]) -> None:
    """Also when it is busy: then another one may take its place at once."""
    with start("--max-kernels=1") as gateway:
        for _ in range(3):
            kernel = gateway.start_kernel()
            with gateway.channels(kernel) as client:
                msg_id = client.execute("print('begun', flush=True)\nwhile True: pass")
                client.receive_until(msg_id, "stream")
                assert gateway.request("DELETE", f"/api/kernels/{kernel}") == (204, None)


def test_kernel_name(start: Callable[..., Gateway]) -> None:
    with start("--kernel-name=conda-env-x") as gateway:
        specs = gateway.request("GET", "/api/kernelspecs")[1]
        assert specs["default"] == "conda-env-x" and list(specs["kernelspecs"]) == ["conda-env-x"]
        assert gateway.request("GET", "/api/kernelspecs/conda-env-x")[1]["name"] == "conda-env-x"
        assert gateway.request("GET", "/api/kernelspecs/python3")[0] == 404
        for body in ({}, {"name": "conda-env-x"}, {"name": "python3"}):
            assert gateway.request("POST", "/api/kernels", body)[1]["name"] == "conda-env-x"
        assert gateway.request("POST", "/api/kernels", {"name": "julia"})[0] == 404


def test_force_kernel_name(start: Callable[..., Gateway]) -> None:
    with start("--force-kernel-name") as gateway:
        status, model = gateway.request("POST", "/api/kernels", {"name": "julia"})
        assert (status, model["name"]) == (201, "python3")
        body = {"path": "a", "type": "file", "kernel": {"name": "julia"}}
        assert gateway.request("POST", "/api/sessions", body)[1]["kernel"]["name"] == "python3"


NAMES = ("KERNEL_FOO", "KERNEL_GATEWAY", "ALLOWED", "OTHER", "INHERITED", "SECRET")


def environment(gateway: Gateway, **env: str) -> list[str | None]:
    with gateway.channels(gateway.start_kernel(env=env)) as client:
        code = f"import os\n[os.environ.get(name) for name in {NAMES}]"
        text = contents(client.run(code), "execute_result")[0]["data"]["text/plain"]
        return [None if word == "None" else word.strip("'") for word in text[1:-1].split(", ")]


def test_variables(start: Callable[..., Gateway], place: harness.Place) -> None:
    place.environ.update({"INHERITED": "i", "SECRET": "s"})
    sent = {"KERNEL_FOO": "f", "KERNEL_GATEWAY": "x", "ALLOWED": "a", "OTHER": "o"}
    with start("--allow-env=ALLOWED", "--inherit-env=INHERITED", "--inherit-env=NONE") as gateway:
        assert environment(gateway, **sent) == ["f", "1", "a", None, "i", None]
        assert environment(gateway) == [None, "1", None, None, "i", None]
    with start() as gateway:
        assert environment(gateway, **sent) == ["f", "1", None, None, None, None]
        assert gateway.request("POST", "/api/kernels", {"env": []})[0] == 400


# --- the seed -------------------------------------------------------------------------------------


def write_notebook(path: Path, *sources: str | list[str]) -> str:
    """The option that names it."""
    cells = [{"cell_type": "code", "source": source} for source in sources]
    cells.insert(0, {"cell_type": "markdown", "source": "# not code ("})
    path.write_text(json.dumps({"nbformat": 4, "nbformat_minor": 5, "cells": cells}))
    return f"--seed-notebook={path}"


def test_seed(start: Callable[..., Gateway], workspace: Path) -> None:
    """Each kernel has run the cells when it is in an answer, and counts its own from 1."""
    seed = write_notebook(workspace / "seed.ipynb", "x = 6", ["def f():\n", "    return x * 7"])
    with start(seed, "--prespawn=1", "--cull-idle=600") as gateway:
        (prespawned,) = gateway.request("GET", "/api/kernels")[1]
        kernels = [prespawned["id"], gateway.start_kernel()]
        body = {"path": "a", "type": "file"}
        status, session = gateway.request("POST", "/api/sessions", body)
        assert status == 201
        path = f"/api/sessions/{session['id']}"
        status, changed = gateway.request("PATCH", path, {"kernel": {"name": "python3"}})
        assert status == 200 and changed["kernel"]["id"] != session["kernel"]["id"]
        for kernel in [*kernels, changed["kernel"]["id"]]:
            with gateway.channels(kernel) as client:
                (result,) = contents(client.run("f()"), "execute_result")
                assert (result["data"]["text/plain"], result["execution_count"]) == ("42", 1)


@pytest.mark.parametrize(
    ("code", "part"), [("1 / 0", "ZeroDivisionError"), ("import os; os._exit(3)", "3")]
)
def test_a_seed_that_fails(
    start: Callable[..., Gateway], workspace: Path, code: str, part: str
) -> None:
    never = str(workspace / "never")
    with start(write_notebook(workspace / "s.ipynb", code, f"open({never!r}, 'w')")) as gateway:
        for path, body in (("kernels", {}), ("sessions", {"path": "a", "type": "file"})):
            status, answer = gateway.request("POST", f"/api/{path}", body)
            assert (status, answer["reason"]) == (500, "Internal Server Error")
            assert "seed notebook failed" in answer["message"] and part in answer["message"]
            assert gateway.request("GET", f"/api/{path}") == (200, [])
    assert not (workspace / "never").exists()


def test_the_end_of_a_kernel_that_runs_the_seed(
    start: Callable[..., Gateway], workspace: Path
) -> None:
    """Its starter gets an error. If the starter leaves, the kernel ends."""
    begun, never = Meeting(workspace / "begun"), Meeting(workspace / "never")
    notebook = write_notebook(workspace / "s.ipynb", f"{begun.code}; {never.code}")
    with start(notebook, "--max-kernels=1") as gateway:
        connection = http.client.HTTPConnection("127.0.0.1", gateway.port, timeout=60)
        connection.request("POST", "/api/kernels")
        begun.wait()
        (kernel,) = gateway.request("GET", "/api/kernels")[1]
        assert gateway.request("DELETE", f"/api/kernels/{kernel['id']}") == (204, None)
        response = connection.getresponse()
        assert response.status == 500 and "failed" in json.loads(response.read())["message"]
        connection.request("POST", "/api/kernels")
        begun.wait()
        connection.close()
        while gateway.request("GET", "/api/kernels")[1]:
            pass


def test_requests_in_a_row(start: Callable[..., Gateway], workspace: Path) -> None:
    """Requests that are sent at once are answered in order, each when its kernel has failed."""
    with start(write_notebook(workspace / "s.ipynb", "1 / 0"), "--max-kernels=4") as gateway:
        head = f"HTTP/1.1\r\nHost: localhost:{gateway.port}\r\n"
        with socket.create_connection(("127.0.0.1", gateway.port)) as connection:
            start_one = f"POST /api/kernels {head}\r\n"
            text = start_one * 3 + f"GET /api/kernels {head}Connection: close\r\n\r\n"
            connection.sendall(text.encode())
            answers = b"".join(iter(lambda: connection.recv(65536), b"")).decode()
        assert re.findall(r"HTTP/1.1 (\d+)", answers) == ["500"] * 3 + ["200"]
        assert answers.endswith("\r\n\r\n[]")


def test_a_client_that_leaves_while_its_kernel_ends(
    start: Callable[..., Gateway], token: str
) -> None:
    """The gateway has a token: who has left is no process of this user any more."""
    authorization = {"Authorization": "token secret"}
    with start("--max-kernels=1", token) as gateway:
        for _ in range(3):
            status, kernel = gateway.request("POST", "/api/kernels", {}, **authorization)
            assert status == 201
            path = f"/api/kernels/{kernel['id']}"
            head = f"HTTP/1.1\r\nHost: localhost:{gateway.port}\r\nAuthorization: token secret\r\n"
            with socket.create_connection(("127.0.0.1", gateway.port)) as connection:
                connection.sendall(f"DELETE {path} {head}\r\n".encode())
            while gateway.request("GET", path, **authorization)[0] == 200:
                pass
            # It counts until it has ended.
            while True:
                status, kernel = gateway.request("POST", "/api/kernels", {}, **authorization)
                if status == 201:
                    break
            path = f"/api/kernels/{kernel['id']}"
            assert gateway.request("DELETE", path, **authorization)[0] == 204


@pytest.mark.parametrize(
    ("text", "part"),
    [
        (None, "seed.ipynb"),
        ("{", "byte"),
        ('{"nbformat": 3, "cells": []}', "nbformat 4"),
        ('{"nbformat": 4, "cells": {}}', "nbformat 4"),
        ('{"nbformat": 4, "cells": [{"cell_type": "code", "source": 1}]}', "code cell 1"),
        ('{"nbformat": 4, "cells": [{"cell_type": "code", "source": ["\\u0000"]}]}', "code cell 1"),
    ],
)
def test_seeds_that_are_refused(
    run_ipybox: Callable[..., subprocess.CompletedProcess[str]],
    workspace: Path,
    text: str | None,
    part: str,
) -> None:
    if text is not None:
        (workspace / "seed.ipynb").write_text(text)
    result = run_ipybox("gateway", "--port=0", "--seed-notebook=seed.ipynb")
    assert result.returncode in (1, 2) and part in result.stderr, result.stderr


# --- browsers -------------------------------------------------------------------------------------

CORS = {
    "Credentials": "false",
    "Headers": "Authorization,Content-Type",
    "Methods": "GET,POST",
    "Origin": "https://jupyter.org",
}


def test_cors_headers(start: Callable[..., Gateway]) -> None:
    """They are in each answer, as given, also in errors."""
    options = [f"--allow-{name.lower()}={value}" for name, value in CORS.items()]
    with start(*options, "--expose-headers=X-Mine", "--max-age=7") as gateway:
        for method, path, status in (
            ("GET", "/api/kernels", 200),
            ("GET", "/api/kernels/1", 404),
            ("OPTIONS", "/api/kernels", 200),
            ("PUT", "/api/kernels", 405),
        ):
            got, headers = ask(gateway, method, path)
            assert got == status
            for name, value in CORS.items():
                assert headers[f"Access-Control-Allow-{name}"] == value
            assert headers["Access-Control-Expose-Headers"] == "X-Mine"
            assert headers["Access-Control-Max-Age"] == "7"
        # A preflight request of that page gets the same, and that of another page nothing.
        preflight = {"Access_Control_Request_Method": "POST"}
        status, headers = ask(gateway, "OPTIONS", "/api", Origin=CORS["Origin"], **preflight)
        assert status == 204 and headers["Access-Control-Allow-Methods"] == "GET,POST"
        status, headers = ask(gateway, "OPTIONS", "/api", Origin="https://evil.org", **preflight)
        assert status == 403 and "Access-Control-Allow-Origin" not in headers


def test_options(start: Callable[..., Gateway], token: str) -> None:
    with start(token) as gateway:
        authorization = {"Authorization": "token secret"}
        status, headers = ask(gateway, "OPTIONS", "/api/kernels", **authorization)
        assert (status, headers["Allow"]) == (200, "GET, POST")
        assert not [name for name in headers if name.startswith("Access-Control")]
        assert ask(gateway, "OPTIONS", "/api/none", **authorization)[0] == 404
        assert ask(gateway, "OPTIONS", "/api/kernels")[0] == 401


def test_every_origin(
    start: Callable[..., Gateway],
    run_ipybox: Callable[..., subprocess.CompletedProcess[str]],
    token: str,
) -> None:
    """Each page may send requests, if it has the token."""
    with start("--allow-origin=*", token) as gateway:
        page = {"Origin": "https://evil.org"}
        assert ask(gateway, "GET", "/api", **page)[0] == 401
        status, headers = ask(gateway, "GET", "/api", Authorization="token secret", **page)
        assert (status, headers["Access-Control-Allow-Origin"]) == (200, "https://evil.org")
        assert ask(gateway, "GET", "/api?token=secret")[1]["Access-Control-Allow-Origin"] == "*"
        assert ask(gateway, "GET", "/api?token=secret", Host="evil.org", **page)[0] == 403
        preflight = {"Access_Control_Request_Method": "POST"}
        assert ask(gateway, "OPTIONS", "/api", **page, **preflight)[0] == 204
    refused = run_ipybox("gateway", "--port=0", "--allow-origin=*")
    assert refused.returncode == 2 and "set a token" in refused.stderr


# --- the description ------------------------------------------------------------------------------


def test_description(start: Callable[..., Gateway]) -> None:
    """It names each path with its methods: those that OPTIONS says."""
    with start("--base-url=/base") as gateway:
        status, description = gateway.request("GET", "/base/api/swagger.json")
        assert status == 200 and description["swagger"] == "2.0"
        assert description["basePath"] == "/base"
        assert gateway.request("GET", "/base/api/swagger.yaml") == (200, description)
        content_type = ask(gateway, "GET", "/base/api/swagger.yaml")[1]["Content-Type"]
        assert content_type == "text/x-yaml"
        paths = description["paths"]
        assert {"/api/kernels", "/api/sessions/{session_id}"} <= paths.keys()
        for path, operations in paths.items():
            status, headers = ask(
                gateway, "OPTIONS", f"/base{path.replace('{', '').replace('}', '')}"
            )
            allowed = headers["Allow"].lower().split(", ")
            assert (status, sorted(operations)) == (200, sorted(allowed)), path
            for operation in operations.values():
                names = [one["name"] for one in operation["parameters"] if one["in"] == "path"]
                assert names == re.findall("{(.*?)}", path)


# --- the command line -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "argument",
    [
        "--base-url=x",
        "--base-url=",
        "--base-url=/a//b",
        "--base-url=/a b",
        "--base-url=/" + "x" * 256,
        "--prespawn=-1",
        "--prespawn=101",
        "--kernel-name=",
        "--kernel-name=a/b",
        "--kernel-name=" + "x" * 101,
        "--allow-env=A=b",
        "--allow-env=",
        "--inherit-env=A B",
        "--allow-origin=http://a\r\nb",
        "--allow-credentials=yes",
        "--allow-headers=a\r\nb",
        "--allow-methods=é",
        "--expose-headers=" + "x" * 1025,
        "--max-age=-1",
        "--max-age=1h",
    ],
)
def test_refusals(
    run_ipybox: Callable[..., subprocess.CompletedProcess[str]], argument: str
) -> None:
    result = run_ipybox("gateway", "--port=0", argument)
    name = argument.partition("=")[0]
    assert (result.returncode, name in result.stderr) == (2, True), result.stderr
