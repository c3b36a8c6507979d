# SPDX-License-Identifier: Apache-2.0
"""`ipybox gateway --allow-origin` from pages in a real browser.

REST with a token, after a preflight request, and a WebSocket.
"""

from __future__ import annotations

import json
import os
import queue
import shutil
import signal
import subprocess
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import chromium
import harness
from gateway_driver import Gateway

# Uses the gateway at the address in its query, and reports the outcome to its server.
PAGE = """<!doctype html><script type="module">
const base = new URLSearchParams(location.search).get("gateway"), outcome = {};
const headers = {Authorization: "token secret", "Content-Type": "application/json"};
async function attempt(name, func) {
  try { outcome[name] = await func(); } catch (error) { outcome[name] = `${error.name}`; }
}
const wrong = {Authorization: "token wrong"};
await attempt("wrong token", async () => (await fetch(`${base}/api`, {headers: wrong})).status);
await attempt("version", async () => {
  const response = await fetch(`${base}/api`, {headers});
  return typeof (await response.json()).version;
});
let kernel;
await attempt("start", async () => {
  const response = await fetch(`${base}/api/kernels`, {method: "POST", headers, body: "{}"});
  kernel = (await response.json()).id;
  return [response.status, response.headers.get("Location") === `/api/kernels/${kernel}`];
});
await attempt("cell", () => new Promise((resolve, reject) => {
  const url = `${base.replace("http", "ws")}/api/kernels/${kernel ?? "none"}/channels?token=secret`;
  const socket = new WebSocket(url);
  socket.onerror = () => reject(new Error());
  socket.onopen = () => socket.send(JSON.stringify({
    channel: "shell", parent_header: {}, metadata: {}, buffers: [], content: {code: "print(6 * 7)"},
    header: {
      msg_id: "m1", msg_type: "execute_request", session: "s", username: "u", version: "5.3",
    },
  }));
  socket.onmessage = (event) => {
    const message = JSON.parse(event.data);
    if (message.header.msg_type === "stream") resolve(message.content.text);
  };
}));
await attempt("delete", async () => {
  const response = await fetch(`${base}/api/kernels/${kernel}`, {method: "DELETE", headers});
  return response.status;
});
await fetch("/outcome", {method: "POST", body: JSON.stringify(outcome)});
</script>"""


class Pages:
    """Serves the page, and receives its report."""

    def __init__(self) -> None:
        outcomes: queue.Queue[dict[str, Any]] = queue.Queue()

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.answer(PAGE.encode())

            def do_POST(self) -> None:
                outcomes.put(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
                self.answer(b"")

            def answer(self, body: bytes) -> None:
                self.send_response(200)
                self.send_header("Content-Type", "text/html")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *args: Any) -> None:
                pass

        self.outcomes = outcomes
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.thread = threading.Thread(target=self.server.serve_forever)
        self.thread.start()
        self.origin = f"http://127.0.0.1:{self.server.server_port}"

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()


def browse(pages: Pages, place: harness.Place, gateway: Gateway) -> dict[str, Any]:
    """The report of the page."""
    profile = place.root / "profile"
    url = f"{pages.origin}/?gateway=http://127.0.0.1:{gateway.port}"
    browser = subprocess.Popen(
        [
            chromium.program(),
            *chromium.FLAGS,
            f"--user-data-dir={profile}",
            "--remote-debugging-port=0",
            url,
        ],
        env=place.environ,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        return pages.outcomes.get(timeout=120)
    finally:
        os.killpg(browser.pid, signal.SIGKILL)
        browser.wait()
        shutil.rmtree(profile, ignore_errors=True)
        for path in [*place.tmp.iterdir(), *place.runtime.iterdir()]:  # the browser's
            shutil.rmtree(path) if path.is_dir() else path.unlink()


def test_pages(ipybox: str, place: harness.Place, python: str) -> None:
    (place.workspace / "token").write_text("secret\n")
    allowed, other = Pages(), Pages()
    try:
        with Gateway(
            ipybox,
            place,
            "--python",
            python,
            "--token-file=token",
            f"--allow-origin={allowed.origin}",
        ) as gateway:
            assert browse(allowed, place, gateway) == {
                "wrong token": 401,
                "version": "string",
                "start": [201, True],
                "cell": "42\n",
                "delete": 204,
            }
            # Another page with the same token gets nothing.
            outcome = browse(other, place, gateway)
            names = {"wrong token", "version", "start", "delete"}
            assert {outcome[name] for name in names} == {"TypeError"} and outcome[
                "cell"
            ] == "Error", outcome
    finally:
        allowed.close()
        other.close()
