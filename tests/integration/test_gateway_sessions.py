# SPDX-License-Identifier: Apache-2.0
"""`/api/sessions` of `ipybox gateway`: the notebooks that clients have open, and their kernels."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import harness
import pytest
from gateway_driver import Gateway, contents
from websockets.exceptions import ConnectionClosed

KERNELS, SESSIONS = "/api/kernels", "/api/sessions"


@pytest.fixture
def start(ipybox: str, place: harness.Place, python: str) -> Callable[..., Gateway]:
    return lambda *args: Gateway(ipybox, place, "--python", python, *args)


@pytest.fixture
def gateway(start: Callable[..., Gateway]) -> Iterator[Gateway]:
    with start() as gateway:
        yield gateway


def create(gateway: Gateway, **body: Any) -> dict[str, Any]:
    status, session = gateway.request(
        "POST", SESSIONS, {"path": "a.ipynb", "type": "notebook"} | body
    )
    assert status == 201, session
    return session


def kernel_ids(gateway: Gateway) -> list[str]:
    return [kernel["id"] for kernel in gateway.request("GET", KERNELS)[1]]


def test_create_list_get_delete(gateway: Gateway) -> None:
    assert gateway.request("GET", SESSIONS) == (200, [])
    session = create(gateway, name="a")
    assert {**session, "kernel": None} == {
        "id": session["id"],
        "path": "a.ipynb",
        "name": "a",
        "type": "notebook",
        "kernel": None,
        "notebook": {"path": "a.ipynb", "name": "a"},
    }
    assert gateway.request("GET", SESSIONS) == (200, [session])
    assert gateway.request("GET", f"{SESSIONS}/{session['id']}") == (200, session)
    kernel = session["kernel"]["id"]
    assert gateway.request("GET", KERNELS) == (200, [session["kernel"]])
    with gateway.channels(kernel) as client:
        assert contents(client.run("6 * 7"), "execute_result")[0]["data"] == {"text/plain": "42"}
    assert gateway.request("GET", SESSIONS)[1][0]["kernel"]["execution_state"] == "idle"

    assert gateway.request("DELETE", f"{SESSIONS}/{session['id']}") == (204, None)
    assert gateway.request("GET", SESSIONS) == (200, [])
    assert gateway.request("GET", KERNELS) == (200, [])
    for method in ("GET", "DELETE", "PATCH"):
        status, answer = gateway.request(method, f"{SESSIONS}/{session['id']}")
        assert (status, answer["reason"]) == (404, "Not Found")
        assert session["id"] in answer["message"]


def test_the_path_is_only_a_text(gateway: Gateway, place: harness.Place) -> None:
    """It may be what no file can be called, and comes back as it was sent."""
    for path in ("/etc/passwd", "../../x", "\ud800 é\n", "", "x" * 4096):
        session = create(gateway, path=path, type="file", name=path[:100])
        assert (session["path"], session["name"]) == (path, path[:100])
        assert "notebook" not in session
        assert session in gateway.request("GET", SESSIONS)[1]
    assert list(place.workspace.iterdir()) == []


def test_a_path_has_one_session(gateway: Gateway) -> None:
    session = create(gateway)
    assert create(gateway, name="other") == session
    older = create(gateway, path="b", notebook={"path": "a.ipynb"})  # as older clients send it
    assert older["id"] == session["id"]
    assert len(kernel_ids(gateway)) == 1


def test_sessions_of_one_kernel(gateway: Gateway) -> None:
    """They end with it, whatever ends it."""
    kernel = gateway.start_kernel()
    one = create(gateway, path="1", kernel={"id": kernel})
    two = create(gateway, path="2", kernel={"id": kernel, "name": "python3"})
    other = create(gateway, path="3", kernel={"name": "python3"})
    assert one["kernel"]["id"] == two["kernel"]["id"] == kernel
    assert kernel_ids(gateway) == [kernel, other["kernel"]["id"]]
    assert gateway.request("DELETE", f"{SESSIONS}/{two['id']}") == (204, None)
    assert gateway.request("GET", SESSIONS) == (200, [other])
    with gateway.channels(other["kernel"]["id"]) as client:
        client.send("shutdown_request", {"restart": False}, "control")
        with pytest.raises(ConnectionClosed):
            while True:
                client.receive()
    assert gateway.request("GET", SESSIONS) == (200, [])


def test_rename(gateway: Gateway) -> None:
    session = create(gateway)
    path = f"{SESSIONS}/{session['id']}"
    changes = {"path": "b.py", "name": "b", "type": "file"}
    status, changed = gateway.request("PATCH", path, changes)
    assert status == 200 and changed.pop("kernel")["id"] == session["kernel"]["id"]
    assert changed == {"id": session["id"], **changes}
    status, changed = gateway.request("PATCH", path, {"notebook": {"path": "c.ipynb"}})
    assert changed["notebook"] == {"path": "c.ipynb", "name": "b"}
    assert gateway.request("PATCH", path, {})[1]["path"] == "c.ipynb"
    # Its old path is free again.
    assert create(gateway)["id"] != session["id"]


def test_another_kernel(gateway: Gateway) -> None:
    """The session's old kernel ends."""
    session = create(gateway)
    path, first = f"{SESSIONS}/{session['id']}", session["kernel"]["id"]
    assert gateway.request("PATCH", path, {"kernel": {"id": first}})[0] == 200
    status, changed = gateway.request("PATCH", path, {"kernel": {"name": "python3"}})
    second = changed["kernel"]["id"]
    assert status == 200 and second != first and kernel_ids(gateway) == [second]
    third = gateway.start_kernel()
    status, changed = gateway.request("PATCH", path, {"path": "x", "kernel": {"id": third}})
    assert (changed["path"], changed["kernel"]["id"]) == ("x", third)
    assert kernel_ids(gateway) == [third] and gateway.request("GET", SESSIONS) == (200, [changed])


@pytest.mark.parametrize(
    ("body", "status", "part"),
    [
        (None, 400, "no body"),
        ([], 400, "object"),
        ({"type": "notebook"}, 400, "path"),
        ({"path": "a"}, 400, "type"),
        ({"path": 1, "type": "notebook"}, 400, "path"),
        ({"path": "x" * 4097, "type": "notebook"}, 400, "4096"),
        ({"path": "a", "type": "x" * 257}, 400, "256"),
        ({"path": "a", "type": "notebook", "name": "x" * 1025}, 400, "1024"),
        ({"path": "a", "type": "notebook", "kernel": "python3"}, 400, "kernel"),
        ({"path": "a", "type": "notebook", "kernel": {"id": "1-2-3"}}, 400, "1-2-3"),
        ({"path": "a", "type": "notebook", "kernel": {"name": "julia"}}, 404, "julia"),
    ],
)
def test_refused(gateway: Gateway, body: object, status: int, part: str) -> None:
    got, answer = gateway.request("POST", SESSIONS, body)
    assert got == status and part in answer["message"]
    assert answer["reason"] == {400: "Bad Request", 404: "Not Found"}[status]
    assert gateway.request("GET", SESSIONS) == gateway.request("GET", KERNELS) == (200, [])


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (None, 400),
        ({"path": 1}, 400),
        ({"path": "new", "kernel": {"id": "gone"}}, 400),
        ({"path": "new", "kernel": {"name": "julia"}}, 404),
        ({"path": "new", "kernel": {"name": "python3"}}, 403),  # there may be no more kernels
    ],
)
def test_a_change_that_is_refused_changes_nothing(
    start: Callable[..., Gateway], body: object, status: int
) -> None:
    with start("--max-kernels=1") as gateway:
        session = create(gateway)
        assert gateway.request("PATCH", f"{SESSIONS}/{session['id']}", body)[0] == status
        assert gateway.request("GET", SESSIONS) == (200, [session])


def test_limits(start: Callable[..., Gateway]) -> None:
    with start("--max-kernels=1") as gateway:
        first = create(gateway, path="0")
        status, answer = gateway.request("POST", SESSIONS, {"path": "1", "type": "notebook"})
        assert (status, answer["reason"]) == (403, "Forbidden") and "kernels" in answer["message"]
        kernel = {"id": first["kernel"]["id"]}
        for number in range(1, 1000):
            create(gateway, path=str(number), kernel=kernel)
        body = {"path": "1000", "type": "notebook", "kernel": kernel}
        status, answer = gateway.request("POST", SESSIONS, body)
        assert status == 403 and "1000 sessions" in answer["message"]
        assert len(gateway.request("GET", SESSIONS)[1]) == 1000
        # The client that ended a kernel can start another one at once.
        assert gateway.request("DELETE", f"{SESSIONS}/{first['id']}")[0] == 204
        assert create(gateway, path="1000")["path"] == "1000"
        assert len(gateway.request("GET", SESSIONS)[1]) == 1


def test_hidden(start: Callable[..., Gateway]) -> None:
    with start("--hide-kernels") as gateway:
        session = create(gateway)
        for path in (SESSIONS, KERNELS):
            status, answer = gateway.request("GET", path)
            assert (status, answer["reason"]) == (403, "Forbidden")
        # A client that knows the id gets it.
        assert gateway.request("GET", f"{SESSIONS}/{session['id']}") == (200, session)
        assert gateway.request("GET", f"{KERNELS}/{session['kernel']['id']}")[0] == 200


def test_an_idle_kernel_takes_its_session(start: Callable[..., Gateway]) -> None:
    with start("--cull-idle=1") as gateway:
        create(gateway)
        while gateway.request("GET", SESSIONS)[1]:
            pass
        assert gateway.request("GET", KERNELS) == (200, [])


def test_contents_are_not_served(gateway: Gateway) -> None:
    status, answer = gateway.request("GET", "/api/contents")
    assert (status, answer["reason"]) == (404, "Not Found")
