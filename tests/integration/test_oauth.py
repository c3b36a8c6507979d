# SPDX-License-Identifier: Apache-2.0
"""OAuth for MCP servers over HTTP: `ipybox login`, `ipybox logout`, and what transports ask for.

Transports are driven by build/tests/unit/oauth-tool.
"""

from __future__ import annotations

import contextlib
import http.client
import http.server
import json
import os
import subprocess
import threading
import urllib.parse
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import harness
import pytest
from oauth_servers import OAuthServers, browse
from server_process import free_port

TOOL = (
    Path(os.environ.get("IPYBOX_BIN", harness.ROOT / "build/ipybox")).parent
    / "tests/unit/oauth-tool"
)
REFUSED = 4  # IPYBOX_ERROR_REFUSED
Serve = Callable[..., OAuthServers]


@pytest.fixture
def serve() -> Iterator[Serve]:
    with contextlib.ExitStack() as stack:
        yield lambda **switches: stack.enter_context(OAuthServers(**switches))


class Login:
    """`ipybox login` in the background; the test is the browser."""

    def __init__(self, ipybox: str, place: harness.Place, *args: str) -> None:
        self.process = subprocess.Popen(
            [ipybox, "login", "--no-browser", "--timeout", "30", *args],
            cwd=place.workspace, env=place.environ, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip

    def url(self) -> str:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.startswith("http"):
                return line.strip()
        raise AssertionError(self.end())

    def end(self) -> tuple[int, str, str]:
        out, err = self.process.communicate(timeout=60)
        return self.process.returncode, out, err


@pytest.fixture
def start_login(ipybox: str, place: harness.Place) -> Iterator[Callable[..., Login]]:
    logins: list[Login] = []

    def start(*args: str) -> Login:
        logins.append(Login(ipybox, place, *args))
        return logins[-1]

    yield start
    for login in logins:
        login.process.kill()
        login.process.communicate()


@pytest.fixture
def log_in(start_login: Callable[..., Login]) -> Callable[..., str]:
    """Logs in; returns the output."""

    def run(*args: str) -> str:
        login = start_login(*args)
        assert browse(login.url())[0] == 200
        status, out, err = login.end()
        assert (status, err) == (0, "")
        return out

    return run


@pytest.fixture
def fail_login(start_login: Callable[..., Login]) -> Callable[..., str]:
    """A login that fails before the browser is involved; returns the error."""

    def run(*args: str) -> str:
        status, out, err = start_login(*args).end()
        assert status != 0 and "http" not in out
        return err

    return run


@pytest.fixture
def ask(place: harness.Place) -> Callable[..., dict[str, Any]]:
    """One request as a transport makes it."""

    def run(servers: OAuthServers, settings: dict[str, Any] | None = None, times: int = 1) -> Any:
        done = harness.run(
            [str(TOOL), servers.url, "shop", json.dumps(settings) if settings else "", str(times)],
            place,
        )
        assert done.returncode == 0, done.stderr
        answers = [json.loads(line) for line in done.stdout.splitlines()]
        return answers[0] if times == 1 else answers

    return run


def record_of(place: harness.Place) -> dict[str, Any]:
    (path,) = (place.state / "ipybox/oauth").glob("*.json")
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700
    return json.loads(path.read_text())


# Login


def test_login_and_request(serve, log_in, ask, place):
    servers = serve(scope="read write")
    refused = ask(servers)
    assert refused["code"] == REFUSED and 'run "ipybox login shop"' in refused["error"]
    out = log_in(servers.url)
    assert "read write" in out
    assert ask(servers) == {"status": 200, "body": '{"scope": "read write"}'}
    query = servers.authorizations[0]
    assert query["resource"] == servers.url and query["scope"] == "read write"
    assert servers.token_requests[0]["resource"] == servers.url
    assert query["redirect_uri"].startswith("http://127.0.0.1:")
    registration = servers.registrations[0]
    assert (
        registration["application_type"] == "native"
        and registration["token_endpoint_auth_method"] == "none"
    )
    record = record_of(place)
    assert record["token"]["issuer"] == servers.issuer and "challenge" not in record
    assert record["token"]["access_token"] not in out


def test_second_login_keeps_the_client(serve, log_in):
    servers = serve()
    log_in(servers.url)
    log_in(servers.url)
    assert len(servers.registrations) == 1
    assert servers.authorizations[0]["client_id"] == servers.authorizations[1]["client_id"]


def test_registered_server(serve, log_in, run_ipybox, environ):
    """With the user's own client, whose secret is in the environment."""
    servers = serve(metadata={"token_endpoint_auth_methods_supported": ["client_secret_basic"]})
    servers.add_client("mine", "s:e c/r=t")
    environ["SHOP_SECRET"] = "s:e c/r=t"
    oauth = {"clientId": "mine", "clientSecret": "${SHOP_SECRET}", "scopes": ["one", "two"]}
    run_ipybox("servers", "add", "shop", json.dumps({"url": servers.url, "oauth": oauth}))
    log_in("shop")
    assert servers.registrations == [] and servers.authorizations[0]["scope"] == "one two"
    assert servers.token_requests[0]["authorization"].startswith("Basic ")


def test_client_with_a_secret_of_registration(serve, log_in, ask):
    servers = serve(client_secret="hush", expires_in=1)
    log_in(servers.url)
    assert ask(servers)["status"] == 200
    assert [r["client_secret"] for r in servers.token_requests] == ["hush", "hush"]


def test_client_id_metadata_document(serve, log_in, run_ipybox):
    servers = serve(metadata={"client_id_metadata_document_supported": True})
    url = "https://app.example.com/client.json"
    servers.add_client(url)
    port = free_port()
    oauth = {"clientMetadataUrl": url, "callbackPort": port}
    run_ipybox("servers", "add", "shop", json.dumps({"url": servers.url, "oauth": oauth}))
    log_in("shop")
    assert servers.authorizations[0]["client_id"] == url
    assert servers.authorizations[0]["redirect_uri"] == f"http://127.0.0.1:{port}/callback"


def test_pasted_address(serve, start_login):
    """The browser is on another machine."""
    servers = serve()
    login = start_login(servers.url)
    query = dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(login.url()).query))
    address = servers.authorize(query)
    login.process.stdin.write(f"http://127.0.0.1:1/callback?code=x&state=y\n\n  {address} \n")
    login.process.stdin.flush()
    status, _, err = login.end()
    assert status == 0 and "not the address of this login" in err


def test_scopes_of_the_resource(serve, log_in):
    servers = serve(scopes_supported=["a", "b"])
    log_in(servers.url)
    assert servers.authorizations[0]["scope"] == "a b"


def test_no_scope(serve, log_in):
    servers = serve()
    log_in(servers.url)
    assert "scope" not in servers.authorizations[0]


def test_scope_of_the_command_line(serve, log_in):
    servers = serve(scope="a")
    log_in(servers.url, "--scope", "z")
    assert servers.authorizations[0]["scope"] == "z"


def test_offline_access(serve, log_in):
    servers = serve(scope="a", metadata={"scopes_supported": ["a", "offline_access"]})
    log_in(servers.url)
    assert servers.authorizations[0]["scope"] == "a offline_access"
    assert servers.authorizations[0]["prompt"] == "consent"


def test_resource_at_the_well_known_places(serve, log_in, ask):
    servers = serve(named_metadata=False)
    log_in(servers.url)
    assert "/.well-known/oauth-protected-resource/mcp" in servers.paths()
    assert ask(servers)["status"] == 200


def test_issuer_with_a_path(serve, log_in):
    servers = serve(issuer_path="/tenant/one")
    log_in(servers.url)
    assert "/.well-known/oauth-authorization-server/tenant/one" in servers.paths()


@pytest.mark.parametrize("has_metadata", [True, False])
def test_server_of_the_first_specification(serve, log_in, ask, has_metadata):
    """MCP 2025-03-26: the MCP server is its own authorization server, with endpoints at their
    default paths.
    """
    servers = serve(one_port=True, has_resource=False, has_metadata=has_metadata)
    log_in(servers.url)
    assert servers.authorizations[0]["resource"] == servers.url
    assert ask(servers)["status"] == 200


# Misbehaviour


@pytest.mark.parametrize(
    ("switches", "message"),
    [
        ({"issuer": "https://honest.example"}, "is of another issuer"),
        ({"resource": "https://honest.example/mcp"}, "is for https://honest.example/mcp, not for"),
        ({"metadata": {"code_challenge_methods_supported": None}}, "PKCE"),
        ({"metadata": {"code_challenge_methods_supported": ["plain"]}}, "PKCE"),
        ({"metadata": {"token_endpoint": "http://evil.example/token"}}, "is not https"),
        (
            {"metadata": {"authorization_endpoint": "file:///etc/passwd"}},
            "neither https:// nor http://",
        ),
        ({"metadata": {"authorization_endpoint": None}}, "no authorization_endpoint"),
        ({"metadata": {"registration_endpoint": None}}, "registers no clients"),
        ({"redirects": "http://127.0.0.1:1/"}, "there is no metadata at"),
        ({"resource_bytes": b"{" + b" " * 300_000 + b"}"}, "bytes"),
        ({"resource_bytes": b'{"resource":' + b"[" * 5000}, "cannot be read"),
        ({"metadata_status": 500}, "has no metadata"),
    ],
)
def test_bad_discovery(serve, fail_login, switches, message):
    servers = serve(**switches)
    assert message in fail_login(servers.url)
    assert servers.token_requests == []


@pytest.mark.parametrize(
    ("switches", "message"),
    [
        ({"answer": {"iss": "https://evil.example", "error": "SHOWN"}}, "an issuer that is not"),
        ({"metadata": {"authorization_response_iss_parameter_supported": True}}, "names no issuer"),
        (
            {
                "answer": {
                    "code": None,
                    "error": "access_denied",
                    "error_description": "no \x1b[31m",
                }
            },
            "refused the login: access_denied",
        ),
        ({"answer": {"code": None}}, "has no code"),
        ({"answer": {"code": "made-up"}}, "invalid_grant"),
        ({"token": {"access_token": "a\r\nX-Evil: 1"}}, "fits into a header"),
        ({"token": {"token_type": "mac"}}, "token_type"),
    ],
)
def test_bad_answer(serve, start_login, place, switches, message):
    servers = serve(**switches)
    login = start_login(servers.url)
    assert browse(login.url())[0] == 200
    status, _, err = login.end()
    assert status == 1 and message in err
    assert "SHOWN" not in err and "\x1b" not in err
    assert not list((place.state / "ipybox").rglob("*.json"))


def test_good_issuer_in_the_answer(serve, log_in):
    servers = serve(metadata={"authorization_response_iss_parameter_supported": True})
    servers.switches.answer = {"iss": servers.issuer}
    log_in(servers.url)


def test_strangers_at_the_callback(serve, start_login):
    """A request without the state neither ends the login nor gets in."""
    servers = serve()
    login = start_login(servers.url)
    query = dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(login.url()).query))
    uri, state = query["redirect_uri"], query["state"]
    good = servers.authorize(query)
    for bad in (
        "?code=x",
        "?code=x&state=",
        f"?code=x&state={state}x",
        "?error=access_denied&state=1",
        f"?code=x&state={state}&state={state}",
        f"?code=x&code=y&state={state}",
        f"?code=%ff&state={state}",
    ):
        assert browse(uri + bad)[0] == 400
    assert browse(uri.replace("/callback", "/other") + f"?code=x&state={state}")[0] == 404
    assert browse(good)[0] == 200
    assert login.end()[0] == 0


def test_login_without_https(run_ipybox):
    done = run_ipybox("login", "http://203.0.113.1/mcp")
    assert done.returncode == 1 and "is not https" in done.stderr


def test_login_usage(run_ipybox):
    assert run_ipybox("login").returncode == 2
    assert run_ipybox("login", "a", "b").returncode == 2
    assert run_ipybox("login", "x", "--port", "70000").returncode == 2
    assert "no server nosuch is registered" in run_ipybox("login", "nosuch").stderr
    run_ipybox("servers", "add", "local", '{"command": "true"}')
    assert "needs no login" in run_ipybox("login", "local").stderr


def test_login_timeout(serve, start_login):
    servers = serve()
    status, _, err = start_login(servers.url, "--timeout", "1").end()
    assert status == 124 and "--timeout" in err


# Tokens


def test_refresh_before_the_end(serve, log_in, ask, place):
    servers = serve(scope="a", expires_in=1)
    log_in(servers.url)
    first = record_of(place)["token"]
    assert ask(servers)["status"] == 200
    second = record_of(place)["token"]
    assert servers.token_requests[1]["grant_type"] == "refresh_token"
    assert servers.token_requests[1]["resource"] == servers.url
    assert second["refresh_token"] != first["refresh_token"] and second["scope"] == "a"


def test_refresh_after_401(serve, log_in, ask):
    servers = serve(expires_in=None)
    log_in(servers.url)
    servers.expire_tokens()
    assert ask(servers)["status"] == 200
    assert ask(servers)["status"] == 200
    assert len(servers.token_requests) == 2


def test_refresh_without_a_new_refresh_token(serve, log_in, ask, place):
    servers = serve(rotates=False)
    log_in(servers.url)
    kept = record_of(place)["token"]["refresh_token"]
    servers.switches.gives_refresh = False
    servers.expire_tokens()
    assert ask(servers)["status"] == 200
    assert record_of(place)["token"]["refresh_token"] == kept


def test_refresh_refused(serve, log_in, ask, place):
    servers = serve(refresh_status=400)
    log_in(servers.url)
    servers.expire_tokens()
    refused = ask(servers)
    assert (
        "invalid_grant: gone" in refused["error"] and 'run "ipybox login shop"' in refused["error"]
    )
    assert "token" not in record_of(place)


def test_refresh_fails_for_now(serve, log_in, ask, place):
    """A temporary failure of the server does not end the login."""
    servers = serve(refresh_status=503)
    log_in(servers.url)
    servers.expire_tokens()
    assert "503" in ask(servers)["error"]
    assert "token" in record_of(place)
    servers.switches.refresh_status = 200
    assert ask(servers)["status"] == 200


def test_refresh_refused_by_somebody_else(serve, log_in, ask, place):
    """A 403 without an OAuth error may come from a firewall."""
    servers = serve(refresh_status=403, refresh_error=None)
    log_in(servers.url)
    servers.expire_tokens()
    assert "status 403" in ask(servers)["error"]
    assert "token" in record_of(place)


def test_two_processes_refresh_once(serve, log_in, place):
    servers = serve(expires_in=1)
    log_in(servers.url)
    servers.switches.expires_in = 3600
    tools = [
        subprocess.Popen(
            [TOOL, servers.url, "shop"], env=place.environ, stdout=subprocess.PIPE, text=True
        )
        for _ in range(6)
    ]
    assert all(json.loads(tool.communicate(timeout=60)[0])["status"] == 200 for tool in tools)
    assert [r["grant_type"] for r in servers.token_requests].count("refresh_token") == 1


class Once(dict):
    """Tokens that are valid for one request."""

    def __init__(self, tokens: dict[str, str], on_use: Callable[[], object]) -> None:
        super().__init__(tokens)
        self.on_use = on_use

    def get(self, token: str, default: Any = None) -> Any:
        self.on_use()
        return self.pop(token, default)


def test_token_that_cannot_be_saved(serve, log_in, place, monkeypatch):
    """It is used while the process lives, even after the store with the old token is read again."""
    servers = serve(scope="a")
    log_in(servers.url)
    store, aside = place.state / "ipybox/oauth", place.state / "aside"

    def give(form: dict[str, str], headers: Any) -> Any:
        if len(servers.token_requests) == 1:
            store.rename(aside)
            store.touch()
        return OAuthServers.give(servers, form, headers)

    def mend() -> None:
        if store.is_file():
            store.unlink()
            aside.rename(store)

    monkeypatch.setattr(servers, "give", give)
    servers.tokens = Once(servers.tokens, mend)
    done = harness.run([str(TOOL), servers.url, "shop", "", "3"], place)
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert [answer.get("status") for answer in answers] == [200, 200, 200], answers
    (warning,) = done.stderr.splitlines()
    assert (
        "could not be saved" in warning
        and str(store) in warning
        and 'run "ipybox login shop"' in warning
    )
    token = record_of(place)["token"]
    assert (
        token["refresh_token"] in servers.refresh_tokens
        and token["access_token"] not in done.stderr
    )


def test_unsaved_token_gives_way_to_a_new_login(serve, log_in, place, monkeypatch):
    servers = serve(scope="a")
    log_in(servers.url)
    store, aside = place.state / "ipybox/oauth", place.state / "aside"

    def give(form: dict[str, str], headers: Any) -> Any:
        store.rename(aside)
        store.touch()
        return OAuthServers.give(servers, form, headers)

    def log_in_elsewhere() -> None:
        if store.is_file():
            store.unlink()
            aside.rename(store)
            (path,) = store.glob("*.json")
            record = json.loads(path.read_text())
            record["token"]["access_token"] = "elsewhere"
            path.write_text(json.dumps(record))

    monkeypatch.setattr(servers, "give", give)
    servers.tokens = Once(servers.tokens | {"elsewhere": "b"}, log_in_elsewhere)
    done = harness.run([str(TOOL), servers.url, "shop", "", "3"], place)
    assert [json.loads(line)["body"] for line in done.stdout.splitlines()] == [
        '{"scope": "a"}', '{"scope": "a"}', '{"scope": "b"}'
    ]  # fmt: skip
    assert len(servers.token_requests) == 2


class Proxy(http.server.BaseHTTPRequestHandler):
    """An HTTP proxy that records its requests."""

    targets: list[str]

    def log_message(self, *_: Any) -> None:
        pass

    def forward(self) -> None:
        self.targets.append(self.path)
        target = urllib.parse.urlsplit(self.path)
        connection = http.client.HTTPConnection(target.netloc, timeout=10)
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        connection.request(self.command, target.path, body, dict(self.headers))
        response = connection.getresponse()
        data = response.read()
        connection.close()
        self.send_response(response.status)
        for name in ("Content-Type", "WWW-Authenticate"):
            if response.headers[name]:
                self.send_header(name, response.headers[name])
        self.end_headers()
        self.wfile.write(data)

    do_GET = do_POST = forward


@pytest.fixture
def proxy() -> Iterator[http.server.ThreadingHTTPServer]:
    handler = type("Handler", (Proxy,), {"targets": []})
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def test_proxy_of_the_env_file(serve, log_in, run_ipybox, place, proxy):
    """Login, renewal and logout use the proxy that the MCP server's requests use."""
    servers = serve()
    (place.workspace / ".env").write_text(f"http_proxy=http://127.0.0.1:{proxy.server_port}\n")
    targets = proxy.RequestHandlerClass.targets
    log_in(servers.url)
    assert (
        len(targets) == len(servers.requests) - 1 and f"{servers.origin}/token" in targets
    )  # except the browser's request
    servers.expire_tokens()
    run_ipybox("servers", "add", "shop", json.dumps({"url": servers.url}))
    assert targets.count(f"{servers.origin}/token") == 1
    run_ipybox(
        "apigen",
        "--server-name=shop",
        f"--server-params={json.dumps({'url': servers.url})}",
        "--root-dir=api",
    )
    assert targets.count(f"{servers.origin}/token") == 2
    assert run_ipybox("logout", servers.url).returncode == 0
    assert targets.count(f"{servers.origin}/revoke") == 2
    assert len(targets) == len(servers.requests) - 1


def test_token_without_refresh(serve, log_in, ask):
    servers = serve(gives_refresh=False)
    assert "no refresh token" in log_in(servers.url)
    servers.expire_tokens()
    assert "does not accept the stored token any more" in ask(servers)["error"]


def test_never_content(serve, log_in, ask):
    """A server that refuses every token does not cause an endless loop."""
    servers = serve()
    log_in(servers.url)
    for status in (401, 403):
        servers.switches.never_content = status
        before = len(servers.requests)
        assert ask(servers)["code"] == REFUSED
        assert len(servers.requests) - before < 6


def test_step_up(serve, log_in, ask):
    servers = serve(scope="read")
    log_in(servers.url)
    servers.switches.needs_scope = "write"
    refused = ask(servers)
    assert "scopes write" in refused["error"] and "ipybox login shop" in refused["error"]
    log_in(servers.url)
    assert servers.authorizations[1]["scope"].split() == ["read", "write"]
    assert ask(servers)["status"] == 200


def test_new_authorization_server(serve, log_in, ask):
    """Credentials of one server are never shown to another."""
    old, new = serve(), serve()
    log_in(old.url)
    old.expire_tokens()
    old.refresh_tokens.clear()
    old.issuer = new.issuer
    assert ask(old)["code"] == REFUSED
    login_count = len(new.registrations)
    log_in(old.url)
    assert login_count == 0 and len(new.registrations) == 1
    assert new.authorizations[0]["client_id"] in new.clients


def test_client_credentials(serve, ask, place):
    servers = serve(scope="job", expires_in=1, gives_refresh=False)
    servers.add_client("robot", "secret")
    settings = {"grantType": "client_credentials", "clientId": "robot", "clientSecret": "secret"}
    assert ask(servers, settings) == {"status": 200, "body": '{"scope": "job"}'}
    assert ask(servers, settings)["status"] == 200
    form = servers.token_requests[-1]
    assert form["grant_type"] == "client_credentials" and form["resource"] == servers.url
    assert form["scope"] == "job" and form["authorization"].startswith("Basic ")
    servers.clients["robot"] = "changed"
    servers.expire_tokens()
    assert "invalid_client" in ask(servers, settings)["error"]


def test_no_oauth(serve, log_in, ask):
    servers = serve()
    log_in(servers.url)
    assert ask(servers, {"clientId": "x"})["status"] == 200


def test_token_stays_with_its_server(serve, log_in, ask):
    one, other = serve(), serve()
    log_in(one.url)
    other.tokens.update(one.tokens)
    assert ask(other)["code"] == REFUSED


def test_readable_record_is_refused(serve, log_in, ask, place):
    servers = serve()
    log_in(servers.url)
    (path,) = (place.state / "ipybox/oauth").glob("*.json")
    path.chmod(0o644)
    assert "not a file that only you can access" in ask(servers)["error"]


@pytest.mark.parametrize("text", ["", "{", '{"version": 2}'])
def test_record_that_cannot_be_read(serve, log_in, run_ipybox, place, text):
    servers = serve()
    log_in(servers.url)
    (path,) = (place.state / "ipybox/oauth").glob("*.json")
    path.write_text(text)
    done = run_ipybox("login", servers.url)
    assert (
        done.returncode == 1 and "cannot be read" in done.stderr and "ipybox logout" in done.stderr
    )
    assert run_ipybox("logout", servers.url).returncode == 0
    log_in(servers.url)


# Logout


def test_logout(serve, log_in, run_ipybox, ask, place):
    servers = serve()
    log_in(servers.url)
    token = record_of(place)["token"]
    done = run_ipybox("logout", servers.url)
    assert (done.returncode, done.stdout) == (0, f"Logged out of {servers.url}.\n")
    assert servers.revoked == [token["refresh_token"], token["access_token"]]
    assert not list((place.state / "ipybox/oauth").glob("*.json"))
    assert ask(servers)["code"] == REFUSED
    assert "There was no login" in run_ipybox("logout", servers.url).stdout


def test_logout_of_a_server_that_is_gone(serve, log_in, run_ipybox, place):
    servers = serve()
    log_in(servers.url)
    servers.server.shutdown()
    servers.server.server_close()
    done = run_ipybox("logout", "--all")
    assert done.returncode == 0 and "logged out here" in done.stderr
    assert not list((place.state / "ipybox/oauth").glob("*.json"))
    servers.server = servers._serve(type("None", (), {}))
