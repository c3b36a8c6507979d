# SPDX-License-Identifier: Apache-2.0
"""Attack suite E, the kernel wire: a kernel in a sandbox sends the core what no kernel should.

Each breach ends that kernel alone, with an error. The core's memory and descriptors stay bounded,
and the next cell works.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from kernels import Kernels

MIB = 1 << 20

# A cell's way to the wire: its highest socket.
WIRE = """
import array, gc, json, os, socket, struct, time
numbers = [int(name) for name in os.listdir("/proc/self/fd")]
def is_socket(n):
    path = f"/proc/self/fd/{n}"
    return os.path.exists(path) and os.readlink(path)[0] == "s"
wire = socket.socket(fileno=os.dup(max(filter(is_socket, numbers))))
outputs = (o for o in gc.get_objects() if type(o).__module__ == "ipybox_kernel.output")
CELL = next(o for o in outputs if hasattr(o, "cell")).cell
HELLO, DISPLAY, UPDATE, CLEAR, RESULT, ERROR, DONE, REPLY = range(64, 72)
def frame(kind, payload=b"{}", length=None, marker=0):
    payload = payload if isinstance(payload, bytes) else json.dumps(payload).encode()
    length = len(payload) + 5 if length is None else length
    return struct.pack("<IBI", length, kind, marker) + payload
def display(text, cell=CELL):
    data = {"text/plain": text}
    return frame(DISPLAY, {"cell": cell, "data": data, "metadata": {}, "display_id": None})
def done(cell=CELL, **more):
    return frame(DONE, {"cell": cell, "status": "ok", "execution_count": 1, "cwd": "/"} | more)
def send(data, times=1):
    try:
        for _ in range(times):
            wire.sendall(data)
    except OSError:
        os._exit(7)
"""

MESSES = {
    "unknown type": "send(frame(200))",
    "the core's own type": "send(frame(2, {'cell': 1, 'code': 'x'}))",
    "no bytes": "send(frame(DISPLAY, b'', length=0))",
    "no payload": "send(frame(DISPLAY, b''))",
    "no JSON": "send(frame(DISPLAY, b'{\"cell\":'))",
    "not UTF-8": 'send(frame(DISPLAY, b\'{"cell":1,"data":{"text/plain":"\\xff\\xfe"}}\'))',
    "wrong members": "send(frame(DISPLAY, {'cell': 'one', 'data': []}))",
    "members twice": 'send(frame(DONE, b\'{"cell":1,"cell":2,"status":"ok"}\'))',
    "deeply nested": 'send(frame(DISPLAY, b\'{"cell":1,"data":\' + b\'{"a":\' * 1000000))',
    "deeply nested, closed": (
        'send(frame(DISPLAY, b\'{"cell":1,"data":\' + b\'{"a":\' * 100000 + '
        "b'1' + b'}' * 100001))"
    ),
    "a giant": "send(frame(DISPLAY, b'', length=1 << 30) + bytes(1 << 20), 1024)",
    "a giant, sent": "send(frame(DISPLAY, bytes((64 << 20) - 5)))",
    "the largest number": "send(frame(DISPLAY, b'', length=0xffffffff))",
    "half a frame": "send(frame(DISPLAY, b'{', length=1000))",
    "half a head": "send(b'\\x10')",
    "half a frame and death": "send(frame(DISPLAY, b'{', length=1000)); os._exit(1)",
    "forged done": "send(done())",
    "done of a cell to come": "send(done(CELL + 1))",
    "done of no cell": "send(done(0))",
    "done, replayed": "send(done(), 100)",
    "forged hello": "send(frame(HELLO, {'version': 1, 'pid': 1}))",
    "an unexpected reply": "send(frame(REPLY, {'id': 1, 'result': {}}))",
    "a marker that never comes": (
        "send(frame(DISPLAY, {'cell': CELL, 'data': {'text/plain': 'x'}, "
        "'metadata': {}, 'display_id': None}, marker=0xfffffffe))"
    ),
    "markers of its own": "os.write(1, b'\\0' * 100000 + bytes(range(256)) * 100)",
    "displays without end": "send(display('x' * (1 << 20)), 300)",
    "descriptors": (
        "[wire.sendmsg([display('x')], "
        "[(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array('i', [0] * 250))]) "
        "for _ in range(100)]"
    ),
    "the end of sending": "wire.shutdown(socket.SHUT_WR)",
    "the end of receiving": "wire.shutdown(socket.SHUT_RD)",
    "no wire": "os.closerange(3, 2000)",
}


def memory(pid: int) -> int:
    return int(Path(f"/proc/{pid}/status").read_text().partition("VmRSS:")[2].split()[0]) * 1024


def test_what_no_kernel_should_send(kernel: Kernels) -> None:
    """One core for all of them: if one left something behind, the next would see it."""
    with kernel.serve() as server, kernel.serve() as other:
        other.cell("x = 1")
        server.cell("1")
        n_fds, used = len(os.listdir(f"/proc/{server.process.pid}/fd")), memory(server.process.pid)
        for name, mess in MESSES.items():
            arguments = {"code": WIRE + mess, "timeout": 5, "max_output_chars": 1000}
            result = server.tool("execute_ipython_cell", arguments, timeout=60)
            texts = "\n".join(block["text"] for block in result["content"])
            assert len(texts) < 20_000, name
            # A living kernel may still send something that it should not.
            server.tool("execute_ipython_cell", {"code": "1", "timeout": 5})
            server.tool("reset")
            assert server.cell("print('works')") == "works", (name, texts)
        assert len(os.listdir(f"/proc/{server.process.pid}/fd")) <= n_fds + 2
        assert memory(server.process.pid) - used < 200 * MIB
        assert other.cell("print(x)") == "1"


def test_the_wire_is_the_wire(kernel: Kernels) -> None:
    """Positive control: what is sent properly arrives, with descriptors or without."""
    with kernel.serve() as server:
        assert server.cell(WIRE + "send(display('forged'))") == "forged"
        rights = "(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array('i', [0, 1, 2]))"
        assert server.cell(WIRE + f"wire.sendmsg([display('sent')], [{rights}]);") == "sent"
        assert "broke its protocol" in server.failing_cell(
            WIRE + MESSES["unknown type"] + "\ntime.sleep(100)", timeout=20
        )


@pytest.mark.parametrize("fd", ["every descriptor", "0", "1", "2"])
def test_closed_descriptors(kernel: Kernels, fd: str) -> None:
    with kernel.serve() as server:
        code = (
            "import os; os.closerange(0, 2000)"
            if fd == "every descriptor"
            else f"import os; os.close({fd})"
        )
        server.tool("execute_ipython_cell", {"code": code, "timeout": 5})
        server.tool("execute_ipython_cell", {"code": "print(1)", "timeout": 5})
        server.tool("reset")
        assert server.cell("print('works')") == "works"
