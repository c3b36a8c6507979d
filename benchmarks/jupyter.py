#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Times kernels of Jupyter's clients: ipykernel, and ours without and with the sandbox.

All kernels are driven over ZeroMQ, once by a client that does little else than send and wait, and
once by jupyter_client's blocking one. The kernels take turns, so that a machine that becomes slower
affects all.
"""

from __future__ import annotations

import argparse
import hashlib
import hmac
import json
import os
import statistics
import sys
import tempfile
import time
import uuid
from pathlib import Path
from typing import Any

import result_files

ROOT = Path(__file__).resolve().parents[1]
IPYBOX = ROOT / "build/ipybox"
# Has ipykernel and jupyter_client; `make check` and scripts/test-setup make it.
PYTHON = ROOT / ".cache/test/jupyter-suites/bin/python"
TIMEOUT_S = 60.0
# Cells of a kernel's turn.
IN_A_ROW = 50
OURS = [str(IPYBOX), "kernel", "--python", str(PYTHON), "-f", "{connection_file}"]
KERNELS = {
    "ipykernel": [str(PYTHON), "-m", "ipykernel_launcher", "-f", "{connection_file}"],
    "ipybox": [*OURS, "--no-sandbox"],
    "ipybox, sandboxed": OURS,
}


def install(directory: Path) -> None:
    """Writes a kernelspec for each kernel."""
    for number, (name, command) in enumerate(KERNELS.items()):
        folder = directory / "kernels" / f"k{number}"
        folder.mkdir(parents=True)
        spec = {
            "argv": command,
            "display_name": name,
            "language": "python",
            "interrupt_mode": "message",
        }
        (folder / "kernel.json").write_text(json.dumps(spec))


class Kernel:
    """A kernel, and a client with little work of its own: it reads only what it must."""

    def __init__(self, number: int, directory: Path) -> None:
        import zmq
        from jupyter_client.manager import start_new_kernel

        begun = time.perf_counter()
        self._manager, client = start_new_kernel(
            startup_timeout=TIMEOUT_S, kernel_name=f"k{number}", cwd=str(directory)
        )
        self.client_cells: list[float] = []
        self._client = client
        self.run_with_client()
        self.start_s = time.perf_counter() - begun
        self.cells: list[float] = []
        self._key = self._manager.session.key
        self._shell = self._connect(zmq.DEALER, "shell")
        self._iopub = self._connect(zmq.SUB, "iopub")
        self._iopub.setsockopt(zmq.SUBSCRIBE, b"")
        while True:  # until the subscription has arrived
            self._send(uuid.uuid4().hex)
            self._shell.recv_multipart()
            if self._iopub.poll(1000):
                break
        time.sleep(0.5)
        while self._iopub.poll(0):
            self._iopub.recv_multipart()

    def _connect(self, kind: int, channel: str) -> Any:
        import zmq

        socket = zmq.Context.instance().socket(kind)
        socket.linger = 0
        socket.rcvtimeo = int(TIMEOUT_S * 1000)
        socket.connect(self._manager._make_url(channel))
        return socket

    def _send(self, message: str) -> None:
        header = {
            "msg_id": message,
            "msg_type": "execute_request",
            "username": "",
            "session": "bench",
            "date": "2026-01-01T00:00:00Z",
            "version": "5.3",
        }
        content = {"code": "1", "silent": False, "store_history": True, "allow_stdin": False}
        parts = [json.dumps(part).encode() for part in (header, {}, {}, content)]
        signature = hmac.new(self._key, b"".join(parts), hashlib.sha256).hexdigest().encode()
        self._shell.send_multipart([b"<IDS|MSG>", signature, *parts])

    def run(self) -> float:
        """Seconds until the cell's reply and its `idle` have come."""
        message = uuid.uuid4().hex
        begun = time.perf_counter()
        self._send(message)
        reply = self._shell.recv_multipart()
        while True:
            parts = self._iopub.recv_multipart()
            if b'"idle"' in parts[-1] and message.encode() in parts[-3]:
                break
        taken = time.perf_counter() - begun
        if json.loads(reply[-1])["status"] != "ok":
            raise RuntimeError(f"the cell failed: {reply}")
        return taken

    def run_with_client(self) -> float:
        """The same with jupyter_client, whose own work is in the time."""
        begun = time.perf_counter()
        reply = self._client.execute_interactive(
            "1", timeout=TIMEOUT_S, output_hook=lambda message: None, allow_stdin=False
        )
        taken = time.perf_counter() - begun
        if reply["content"]["status"] != "ok":
            raise RuntimeError(f"the cell failed: {reply['content']}")
        return taken

    def close(self) -> None:
        self._client.stop_channels()
        self._manager.shutdown_kernel(now=True)


def measure(cells: int, directory: Path) -> dict[str, dict[str, float]]:
    """Milliseconds by kernel."""
    install(directory)
    kernels = []
    try:
        for number in range(len(KERNELS)):
            kernels.append(Kernel(number, directory))
        for turn in range(cells // IN_A_ROW):
            for kernel in kernels if turn % 2 else kernels[::-1]:
                kernel.cells += [kernel.run() for _ in range(IN_A_ROW)]
        for turn in range(cells // IN_A_ROW):
            for kernel in kernels if turn % 2 else kernels[::-1]:
                kernel.client_cells += [kernel.run_with_client() for _ in range(IN_A_ROW)]
    finally:
        for kernel in kernels:
            kernel.close()
    print_table(kernels)
    return {
        name: {
            "first_cell_ms": kernel.start_s * 1e3,
            "zeromq_ms": statistics.median(kernel.cells) * 1e3,
            "jupyter_client_ms": statistics.median(kernel.client_cells) * 1e3,
        }
        for name, kernel in zip(KERNELS, kernels, strict=True)
    }


def print_table(kernels: list[Kernel]) -> None:
    print("| | start and first cell | cell `1`, ZeroMQ | | cell `1`, jupyter_client | |")
    print("|---|---|---|---|---|---|")
    for name, kernel in zip(KERNELS, kernels, strict=True):
        shown = [f"{kernel.start_s * 1e3:.0f} ms"]
        for mine, theirs in (
            (kernel.cells, kernels[0].cells),
            (kernel.client_cells, kernels[0].client_cells),
        ):
            median = statistics.median(mine)
            shown.append(f"{median * 1e3:.2f} ms")
            shown.append(f"{statistics.median(theirs) / median:.1f} ×")
        print(f"| {name} | {' | '.join(shown)} |")


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--cells", type=int, default=500, help="cells of each kernel (500)")
    result_files.add_options(parser)
    options = parser.parse_args()
    for path in (IPYBOX, PYTHON):
        if not path.exists():
            parser.error(f"{path} is missing: run `make` and `scripts/test-setup jupyter-suites`")
    if Path(sys.prefix) != PYTHON.parents[1]:
        os.execv(PYTHON, [str(PYTHON), *sys.argv])
    # Not below /tmp, of which each sandbox has its own.
    with tempfile.TemporaryDirectory(dir="/var/tmp") as directory:
        os.environ["JUPYTER_PATH"] = directory
        result_files.write(options, "jupyter", measure(options.cells, Path(directory)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
