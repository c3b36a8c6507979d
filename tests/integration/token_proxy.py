# SPDX-License-Identifier: Apache-2.0
"""Adds the token of `ipybox serve` to requests, which the suite cannot do.

Everything else is passed on as it is, but for the port in a Host that names the proxy. Sessions
that the client leaves open are deleted at the end.
"""

from __future__ import annotations

import contextlib
import http.client
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class TokenProxy:
    """A context manager, which returns its port."""

    def __init__(self, server: Any):
        target, token = server.port, server.token
        sessions: set[str] = set()
        self.server, self.sessions = server, sessions

        class Handler(BaseHTTPRequestHandler):
            def handle_any(self) -> None:
                size = int(self.headers.get("Content-Length") or 0)
                body = self.rfile.read(size) if size else None
                own = f":{self.server.server_address[1]}"
                headers = {
                    name: value.replace(own, f":{target}")
                    for name, value in self.headers.items()
                    if name.lower() != "connection"
                }
                connection = http.client.HTTPConnection("127.0.0.1", target, timeout=60)
                connection.putrequest(self.command, self.path, True, True)
                for name, value in {**headers, "Authorization": f"Bearer {token}"}.items():
                    connection.putheader(name, value)
                connection.endheaders(body)
                response = connection.getresponse()
                self.send_response_only(response.status)
                for name, value in response.headers.items():
                    if name.lower() not in ("transfer-encoding", "connection"):
                        self.send_header(name, value)
                self.send_header("Connection", "close")
                if session := response.headers["Mcp-Session-Id"]:
                    sessions.add(session)
                self.end_headers()
                with contextlib.suppress(ConnectionError):  # the client has read enough
                    while chunk := response.read1(65536):
                        self.wfile.write(chunk)
                        self.wfile.flush()
                connection.close()
                self.close_connection = True

            do_GET = do_POST = do_DELETE = handle_any

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self.proxy = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.proxy.daemon_threads = True
        self.thread = threading.Thread(target=self.proxy.serve_forever)

    def __enter__(self) -> int:
        self.thread.start()
        return self.proxy.server_address[1]

    def __exit__(self, *exception: object) -> None:
        for session in self.sessions:
            headers = {"Authorization": f"Bearer {self.server.token}", "Mcp-Session-Id": session}
            connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=60)
            connection.request("DELETE", "/mcp", headers=headers)
            connection.getresponse().read()
            connection.close()
        self.proxy.shutdown()
        self.thread.join()
        self.proxy.server_close()
