# SPDX-License-Identifier: Apache-2.0
"""An authorization server and a server that requires its tokens, on loopback.

Switches make them misbehave:

    with OAuthServers(scope="a b") as servers:
        servers.url, servers.issuer, servers.requests
"""

from __future__ import annotations

import base64
import hashlib
import http.client
import http.server
import itertools
import json
import threading
import urllib.parse
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Switches:
    scope: str | None = None  # in challenges
    scopes_supported: list[str] | None = None  # of the resource
    named_metadata: bool = True  # resource_metadata in challenges
    has_resource: bool = True
    has_metadata: bool = True
    resource: str | None = None
    issuer: str | None = None  # in the metadata, instead of the true one
    metadata: dict[str, Any] = field(
        default_factory=dict
    )  # more members of the server's metadata; None removes
    metadata_status: int = 200
    resource_bytes: bytes | None = None
    redirects: str | None = None  # where requests for metadata are redirected to
    answer: dict[str, str | None] = field(
        default_factory=dict
    )  # more members of the redirect; None removes
    expires_in: Any = 3600
    gives_refresh: bool = True
    rotates: bool = True
    refresh_status: int = 200
    refresh_error: str | None = "invalid_grant"
    token: dict[str, Any] = field(default_factory=dict)  # more members of the token
    client_secret: str | None = None  # of registered clients
    needs_scope: str | None = None  # what the tool needs: 403 without
    never_content: int = 0  # a status that every token gets
    issuer_path: str = ""
    one_port: bool = False  # the MCP server is the authorization server


class OAuthServers:
    def __init__(self, **switches: Any) -> None:
        self.switches = Switches(**switches)
        self.requests: list[tuple[str, str]] = []  # (method, path)
        self.authorizations: list[dict[str, str]] = []
        self.token_requests: list[dict[str, str]] = []
        self.registrations: list[dict[str, Any]] = []
        self.revoked: list[str] = []
        self.clients: dict[str, str | None] = {}
        self.codes: dict[str, dict[str, str]] = {}
        self.tokens: dict[str, str] = {}  # to scope
        self.refresh_tokens: dict[str, str] = {}
        self.numbers = itertools.count(1)
        self.lock = threading.Lock()
        self.server = self._serve(self._make_server_handler())
        self.resource_server = self._serve(self._make_resource_handler())
        self.url = f"http://127.0.0.1:{self.resource_server.server_port}/mcp"
        port = (self.resource_server if self.switches.one_port else self.server).server_port
        self.origin = f"http://127.0.0.1:{port}"
        self.issuer = self.origin + self.switches.issuer_path

    def _serve(self, handler: type) -> http.server.ThreadingHTTPServer:
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        return server

    def __enter__(self) -> OAuthServers:
        return self

    def __exit__(self, *_: object) -> None:
        for server in (self.resource_server, self.server):
            server.shutdown()
            server.server_close()

    def paths(self) -> list[str]:
        return [path for _, path in self.requests]

    def add_client(self, client_id: str, secret: str | None = None) -> None:
        self.clients[client_id] = secret

    # The MCP server

    def _make_resource_handler(self) -> type:
        servers = self

        class Handler(self._make_server_handler()):  # type: ignore[misc]
            def do_GET(self) -> None:
                switches = servers.switches
                if switches.one_port:
                    super().do_GET()
                    return
                servers.requests.append(("GET", self.path))
                if switches.redirects and "oauth-protected-resource" in self.path:
                    self.send(302, b"", {"Location": switches.redirects})
                elif (
                    self.path.startswith("/.well-known/oauth-protected-resource")
                    and switches.has_resource
                ):
                    if self.path.endswith("/mcp") or not switches.named_metadata:
                        document = {
                            "resource": switches.resource or servers.url,
                            "authorization_servers": [servers.issuer],
                            "scopes_supported": switches.scopes_supported,
                        }
                        self.send(200, switches.resource_bytes or json.dumps(document).encode())
                    else:
                        self.send(404, b"")
                else:
                    self.send(404, b"")

            def do_POST(self) -> None:
                if self.path != "/mcp":
                    super().do_POST()
                    return
                self.read_body()
                servers.requests.append(("POST", self.path))
                token = self.headers.get("Authorization", "").removeprefix("Bearer ")
                with servers.lock:
                    granted = servers.tokens.get(token)
                switches = servers.switches
                if granted is None or switches.never_content == 401:
                    self.challenge(401, 'error="invalid_token"' if token else "", switches.scope)
                elif switches.never_content == 403:
                    self.challenge(403, 'error="insufficient_scope"', "x")
                elif switches.needs_scope and switches.needs_scope not in granted.split():
                    self.challenge(403, 'error="insufficient_scope"', switches.needs_scope)
                else:
                    self.send(200, json.dumps({"scope": granted}).encode())

            def challenge(self, status: int, error: str, scope: str | None) -> None:
                parts = [error] if error else []
                if servers.switches.named_metadata and servers.switches.has_resource:
                    place = servers.url.replace("/mcp", "/.well-known/oauth-protected-resource/mcp")
                    parts.append(f'resource_metadata="{place}"')
                if scope:
                    parts.append(f'scope="{scope}"')
                self.send(status, b"", {"WWW-Authenticate": "Bearer " + ", ".join(parts)})

        return Handler

    # The authorization server

    def _metadata(self) -> dict[str, Any]:
        document = {
            "issuer": self.switches.issuer or self.issuer,
            "authorization_endpoint": self.origin + "/authorize",
            "token_endpoint": self.origin + "/token",
            "registration_endpoint": self.origin + "/register",
            "revocation_endpoint": self.origin + "/revoke",
            "code_challenge_methods_supported": ["S256"],
            "token_endpoint_auth_methods_supported": [
                "none",
                "client_secret_basic",
                "client_secret_post",
            ],
        } | self.switches.metadata
        return {name: value for name, value in document.items() if value is not None}

    def _make_server_handler(self) -> type:
        servers = self

        class Handler(BaseHandler):
            def do_GET(self) -> None:
                servers.requests.append(("GET", self.path))
                switches = servers.switches
                if (
                    "/.well-known/o" in self.path
                    and "resource" not in self.path
                    and switches.has_metadata
                ):
                    self.send(switches.metadata_status, json.dumps(servers._metadata()).encode())
                elif self.path.startswith("/authorize?"):
                    query = dict(urllib.parse.parse_qsl(self.path.partition("?")[2]))
                    self.send(302, b"", {"Location": servers.authorize(query)})
                else:
                    self.send(404, b"")

            def do_POST(self) -> None:
                body = self.read_body()
                servers.requests.append(("POST", self.path))
                if self.path == "/register":
                    self.send(201, json.dumps(servers.register(json.loads(body))).encode())
                elif self.path == "/revoke":
                    servers.revoked.append(dict(urllib.parse.parse_qsl(body))["token"])
                    self.send(200, b"")
                elif self.path == "/token":
                    with servers.lock:
                        status, answer = servers.give(
                            dict(urllib.parse.parse_qsl(body)), self.headers
                        )
                    self.send(status, json.dumps(answer).encode())
                else:
                    self.send(404, b"")

        return Handler

    def register(self, document: dict[str, Any]) -> dict[str, Any]:
        self.registrations.append(document)
        client_id = f"client-{next(self.numbers)}"
        self.clients[client_id] = self.switches.client_secret
        answer = {"client_id": client_id, "redirect_uris": document["redirect_uris"]}
        if self.switches.client_secret:
            answer |= {
                "client_secret": self.switches.client_secret,
                "token_endpoint_auth_method": "client_secret_post",
            }
        return answer

    def authorize(self, query: dict[str, str]) -> str:
        self.authorizations.append(query)
        assert query["response_type"] == "code" and query["code_challenge_method"] == "S256"
        code = f"code-{next(self.numbers)}"
        self.codes[code] = query
        answer: dict[str, str | None] = {
            "code": code,
            "state": query["state"],
        } | self.switches.answer
        members = {name: value for name, value in answer.items() if value is not None}
        return query["redirect_uri"] + "?" + urllib.parse.urlencode(members)

    def give(self, form: dict[str, str], headers: Any) -> tuple[int, dict[str, Any]]:
        self.token_requests.append(form | {"authorization": headers.get("Authorization", "")})
        basic = headers.get("Authorization", "").removeprefix("Basic ")
        client, secret = form.get("client_id", ""), form.get("client_secret")
        if basic:
            client, secret = map(urllib.parse.unquote, base64.b64decode(basic).decode().split(":"))
        if client not in self.clients or self.clients[client] not in (None, secret):
            return 401, {"error": "invalid_client"}
        if form["grant_type"] == "authorization_code":
            query = self.codes.pop(form["code"], None)
            digest = hashlib.sha256(form["code_verifier"].encode()).digest()
            proof = base64.urlsafe_b64encode(digest).decode().rstrip("=")
            if (
                query is None
                or proof != query["code_challenge"]
                or form["redirect_uri"] != query["redirect_uri"]
            ):
                return 400, {"error": "invalid_grant"}
            return 200, self.make_token(query.get("scope", ""))
        if form["grant_type"] == "refresh_token":
            if self.switches.refresh_status != 200:
                return self.switches.refresh_status, {
                    "error": self.switches.refresh_error,
                    "error_description": "gone",
                }
            known = form["refresh_token"] in self.refresh_tokens
            if not known:
                return 400, {"error": "invalid_grant", "error_description": "used twice"}
            scope = self.refresh_tokens[form["refresh_token"]]
            if self.switches.rotates:
                del self.refresh_tokens[form["refresh_token"]]
            return 200, self.make_token(scope)
        return 200, self.make_token(form.get("scope", ""))

    def make_token(self, scope: str) -> dict[str, Any]:
        number = next(self.numbers)
        answer: dict[str, Any] = {"access_token": f"access-{number}", "token_type": "Bearer"}
        self.tokens[answer["access_token"]] = scope
        if self.switches.expires_in is not None:
            answer["expires_in"] = self.switches.expires_in
        if self.switches.gives_refresh:
            answer["refresh_token"] = f"refresh-{number}"
            self.refresh_tokens[answer["refresh_token"]] = scope
        return answer | self.switches.token

    def expire_tokens(self) -> None:
        with self.lock:
            self.tokens.clear()


class BaseHandler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: Any) -> None:
        pass

    def read_body(self) -> str:
        return self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()

    def send(self, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in ({"Content-Type": "application/json"} | (headers or {})).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def browse(url: str) -> tuple[int, str]:
    """Follows redirects as a browser does, and returns the last status and address."""
    for _ in range(5):
        parts = urllib.parse.urlsplit(url)
        connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=120)
        connection.request("GET", f"{parts.path}?{parts.query}")
        response = connection.getresponse()
        response.read()
        connection.close()
        if response.status != 302:
            return response.status, url
        url = response.headers["Location"]
    raise AssertionError("too many redirects")
