# SPDX-License-Identifier: Apache-2.0
"""Requests of front ends to the kernel host: completion, documentation, history, expressions.

See test_kernel_host.py.
"""

from __future__ import annotations

import json

from kernel_driver import REQUEST


def request(kernel, method, **params):
    kernel.send_frame(REQUEST, {"id": method, "method": method, "params": params})
    return kernel.wait_for("reply")


def test_requests(kernel):
    kernel.run("some_variable = {'key_one': 1}")
    reply = request(kernel, "complete", code="some_va", cursor_pos=7)
    assert reply["id"] == "complete" and reply["result"]["matches"] == ["some_variable"]
    assert (reply["result"]["cursor_start"], reply["result"]["cursor_end"]) == (0, 7)
    kernel.take_events()
    assert (
        "Signature: len(obj"
        in request(kernel, "inspect", code="len")["result"]["data"]["text/plain"]
    )
    kernel.take_events()
    assert request(kernel, "inspect", code="no_such_name")["result"]["found"] is False
    kernel.take_events()
    assert request(kernel, "is_complete", code="for x in y:")["result"] == {
        "status": "incomplete",
        "indent": "    ",
    }
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
    assert history(hist_access_type="tail", n=1, raw=False)[0][2].startswith(
        "second = get_ipython()"
    )
    assert "one of tail, range" in request(kernel, "history", hist_access_type="x")["error"]
    kernel.take_events()
    info = request(kernel, "kernel_info")["result"]
    assert (
        info["language_info"]["name"] == "python"
        and info["language_info"]["file_extension"] == ".py"
    )
    kernel.take_events()
    assert request(kernel, "comm_info")["result"] == {"comms": {}}


def test_user_expressions(kernel):
    cell = kernel.run(
        "a = 5", user_expressions={"double": "2 * a", "bad": "1 / 0", "large": "'x' * 10**8"}
    )
    values = cell.done["user_expressions"]
    assert values["double"] == {"status": "ok", "data": {"text/plain": "10"}, "metadata": {}}
    assert (
        values["bad"]["ename"] == "ZeroDivisionError" and "too large" in values["large"]["evalue"]
    )
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
