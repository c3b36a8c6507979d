# SPDX-License-Identifier: Apache-2.0
"""`ipybox serve` with TLS: real clients, versions, and peers that disturb the handshake."""

from __future__ import annotations

import json
import socket
import ssl
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import harness
import pytest
from meeting import Meeting
from serve_driver import TIMEOUT, Certificate, Serve, send_raw, text_of

# A ClientHello of TLS 1.2, which is not complete.
HALF_HELLO = bytes.fromhex("16030100c8010000c40303") + bytes(40)


@pytest.fixture
def certificate(place) -> Certificate:
    return Certificate(place.home)


@pytest.fixture
def serve(ipybox, place, certificate) -> Iterator[Serve]:
    context = certificate.context()
    with Serve(ipybox, place, *certificate.options, tls=context) as server:
        yield server


def connect(server: Serve, context: ssl.SSLContext | None = None) -> ssl.SSLSocket:
    """A cut connection is an error here, as it is for careful clients."""
    plain = socket.create_connection(("127.0.0.1", server.port), timeout=TIMEOUT)
    return (context or server.tls).wrap_socket(
        plain, server_hostname="localhost", suppress_ragged_eofs=False
    )


def read_to_end(peer: ssl.SSLSocket) -> bytes:
    answer = b""
    while chunk := peer.recv(65536):
        answer += chunk
    return answer


def get(server: Serve, path: str = "/healthz", headers: str = "") -> bytes:
    head = f"GET {path} HTTP/1.1\r\nHost: localhost:{server.port}\r\n{headers}\r\n"
    return head.encode()


# --- clients ------------------------------------------------------------------------------------


def test_session(serve, workspace):
    """Large requests, large answers and streams; a client that is slow to read."""
    client = serve.client()
    client.cell(f"x = {'y' * 3_000_000!r}")
    assert client.cell("len(x)") == "3000000"
    code = "print('x', flush=True)\nprint(x[:900_000])"
    response = client.start_cell(code, token="t", max_output_chars=1_000_000)
    assert len(text_of(response.messages()[-1])) == 2 + 900_000
    assert len(client.cell("print(x[:900_000])", max_output_chars=1_000_000)) == 900_000
    go = Meeting(workspace / "go")
    response = client.start_cell(f"{go.code}\n'done'")
    assert response.is_stream
    go.wait()
    assert text_of(response.messages()[-1]) == "'done'"
    assert client.delete() == 204


def test_many_requests_of_one_connection(serve):
    connection = serve.connection()
    for i in range(200):
        connection.request("GET", "/healthz")
        response = connection.getresponse()
        assert response.status == 200 and response.read(), i
    connection.close()


@pytest.mark.parametrize("version", ["1.2", "1.3"])
def test_curl(serve, place, certificate, version):
    url = f"https://localhost:{serve.port}/readyz"
    command = ["curl", "-sSi", "--cacert", str(certificate.path), f"--tlsv{version}"]
    done = harness.run([*command, "--tls-max", version, url, url], place, timeout=TIMEOUT)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("HTTP/1.1 200") == 2
    body = json.dumps({"x": "y" * 1_000_000})
    (place.home / "body").write_text(body)
    upload = [*command, "--data-binary", f"@{place.home / 'body'}", "-H", "Expect: 100-continue"]
    token = ["-H", f"Authorization: Bearer {serve.token}", "-H", "Content-Type: application/json"]
    accept = ["-H", "Accept: application/json, text/event-stream"]
    url = f"https://localhost:{serve.port}/mcp"
    done = harness.run([*upload, *token, *accept, url], place, timeout=TIMEOUT)
    assert "HTTP/1.1 100 Continue" in done.stdout
    assert "HTTP/1.1 400" in done.stdout and "Mcp-Session-Id" in done.stdout
    distrustful = harness.run(["curl", "-sS", url], place, timeout=TIMEOUT)
    assert distrustful.returncode == 60, distrustful


def test_python_sdk(client_python, ipybox, place, certificate):
    script = Path(__file__).with_name("serve_sdk_client.py")
    place.environ["SSL_CERT_FILE"] = str(certificate.path)
    with Serve(ipybox, place, *certificate.options, tls=certificate.context()) as server:
        url = f"https://localhost:{server.port}/mcp"
        done = harness.run([client_python, str(script), url, server.token], place, timeout=240)
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout)
    assert seen["cell"] == "42" and "".join(seen["progress"]) == "0\n1\n2\n"
    assert seen["input"] == "'typed'"


# --- the protocol ---------------------------------------------------------------------------------


def s_client(server: Serve, place, *options: str, text: bytes = b"") -> str:
    """`openssl s_client`, which takes commands from its input: a letter at the start of a line."""
    done = subprocess.run(
        ["openssl", "s_client", "-connect", f"127.0.0.1:{server.port}", "-ign_eof", *options],
        input=text,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=place.environ,
        timeout=TIMEOUT,
        check=False,
    )
    return done.stdout.decode(errors="replace")


def test_versions(serve, place):
    last = get(serve, headers="Connection: close\r\n")
    for option, version in (("-tls1_2", "TLSv1.2"), ("-tls1_3", "TLSv1.3")):
        seen = s_client(serve, place, option, text=last)
        assert f"New, {version}, Cipher is" in seen and "HTTP/1.1 200" in seen, seen
        assert "Compression: NONE" in seen and "TLS session ticket:" not in seen
    for option in ("-tls1", "-tls1_1"):
        seen = s_client(serve, place, option, "-cipher", "ALL:@SECLEVEL=0", text=last)
        assert "protocol version" in seen and "HTTP/1.1" not in seen, seen
    weak = s_client(serve, place, "-tls1_2", "-cipher", "AES128-SHA:@SECLEVEL=0", text=last)
    assert "handshake failure" in weak and "HTTP/1.1" not in weak


def test_no_renegotiation(serve, place):
    seen = s_client(serve, place, "-tls1_2", "-no_ign_eof", text=b"R\n" + get(serve))
    assert "RENEGOTIATING" in seen and "no renegotiation" in seen, seen
    assert serve.client().cell("1") == "1"


def test_new_keys(serve, place):
    """TLS 1.3: either side may change its keys between two messages."""
    last = get(serve, headers="Connection: close\r\n")
    with subprocess.Popen(
        ["openssl", "s_client", "-connect", f"127.0.0.1:{serve.port}", "-tls1_3"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=place.environ,
        bufsize=0,
    ) as peer:

        def read_until(text: bytes) -> None:
            seen = b""
            while text not in seen:
                chunk = peer.stdout.read(4096)
                assert chunk, seen
                seen += chunk

        read_until(b"Verify return code")
        # A command is a read of its own.
        for command in (b"K\n", b"k\n", b"K\n"):
            peer.stdin.write(command)
            read_until(b"KEYUPDATE")
        peer.stdin.write(last)
        read_until(b"HTTP/1.1 200")
        peer.stdin.close()
        peer.wait(TIMEOUT)


def test_application_protocol(serve, certificate):
    both, other = certificate.context(), certificate.context()
    both.set_alpn_protocols(["h2", "http/1.1"])
    other.set_alpn_protocols(["h2"])
    with connect(serve, both) as peer:
        assert peer.selected_alpn_protocol() == "http/1.1"
    with pytest.raises(ssl.SSLError):
        connect(serve, other)
    assert serve.client().cell("1") == "1"


def test_end_of_connections(serve):
    """The end says that nothing is missing: after the last answer, and while nothing is sent."""
    with connect(serve) as peer:
        peer.sendall(get(serve, headers="Connection: close\r\n"))
        assert read_to_end(peer).startswith(b"HTTP/1.1 200 ")
    with connect(serve) as peer:
        peer.sendall(b"nonsense\r\n\r\n")
        assert read_to_end(peer).startswith(b"HTTP/1.1 400 ")
    idle = connect(serve)
    idle.sendall(get(serve))
    assert idle.recv(65536).startswith(b"HTTP/1.1 200 ")
    assert serve.close() == 0
    with idle:
        assert read_to_end(idle) == b""


# --- hostile peers --------------------------------------------------------------------------------


def test_plain_http(serve):
    """The answer is one that the client can read."""
    answer = send_raw(serve.port, get(serve)).decode()
    assert answer.startswith("HTTP/1.1 400 ") and "https://" in answer
    assert serve.client().cell("1") == "1"


def test_garbage(serve):
    """What is no handshake ends the connection, and nothing else."""
    for data in (b"\0" * 100, b"\x16" * 100_000, b"x", HALF_HELLO[:5] + b"\xff" * 100_000):
        try:
            answer = send_raw(serve.port, data)
        except ConnectionError:
            answer = b""
        assert b"HTTP" not in answer
    with connect(serve) as peer:
        plain = socket.socket(fileno=peer.detach())
        plain.settimeout(TIMEOUT)
        plain.sendall(b"\x17\x03\x03\x00\x20" + b"x" * 32)  # a record that cannot be decrypted
        try:
            while plain.recv(65536):
                pass
        except ConnectionError:
            pass
        plain.close()
    assert serve.client().cell("1") == "1"


def test_slow_and_silent_peers(ipybox, place, certificate):
    """Connections without a whole handshake give way to clients."""
    options = [*certificate.options, "--max-connections=8"]
    with Serve(ipybox, place, *options, tls=certificate.context()) as server:
        client = server.client()
        peers = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(24)]
        for peer in peers[::2]:
            try:
                peer.sendall(HALF_HELLO)
            except OSError:
                pass  # it has given way
        while True:
            try:
                response = client.start_cell("1")
            except (ssl.SSLError, ConnectionError):
                continue  # all bytes of the others must be read first
            break
        assert text_of(response.messages()[-1]) == "1"
        for peer in peers:
            peer.close()


def test_peers_that_leave(serve, workspace):
    """In the middle of a handshake, of a request, and of an answer."""
    go = Meeting(workspace / "go")
    for _ in range(20):
        with socket.create_connection(("127.0.0.1", serve.port)) as peer:
            peer.sendall(HALF_HELLO)
    with connect(serve) as peer:
        peer.sendall(b"GET /hea")
    client = serve.client()
    response = client.start_cell(f"{go.code}\nx = 5\nprint('y' * 3_000_000)", token="t")
    response.close()
    go.wait()
    assert client.cell("x") == "5"


# --- files ----------------------------------------------------------------------------------------


def test_key_is_invisible(ipybox, place):
    """Cells run as the same user, and could read the key otherwise."""
    with tempfile.TemporaryDirectory(prefix="ipb-", dir="/var/tmp") as name:
        directory = Path(name)
        directory.chmod(0o755)
        certificate = Certificate(directory)
        certificate.key.chmod(0o600)
        with Serve(ipybox, place, *certificate.options, tls=certificate.context()) as server:
            client = server.client()
            assert "BEGIN CERTIFICATE" in client.cell(
                f"print(open({str(certificate.path)!r}).read())"
            )
            answer = client.cell(f"print(open({str(certificate.key)!r}).read())")
        assert "PRIVATE KEY" not in answer and "Error" in answer


def test_faulty_files(run_ipybox, workspace):
    good, other = Certificate(workspace, "good"), Certificate(workspace, "other")
    locked = workspace / "locked.key"
    subprocess.run(
        ["openssl", "pkey", "-in", str(good.key), "-out", str(locked), "-aes128"]
        + ["-passout", "pass:secret"],
        check=True,
        timeout=TIMEOUT,
    )
    empty, text = workspace / "empty", workspace / "text"
    empty.touch(0o600)
    text.touch(0o600)
    text.write_text("-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----\n")
    large = workspace / "large"
    large.touch(0o600)
    large.write_bytes(good.path.read_bytes() * 20)
    for path, key, words in [
        (good.path, other.key, "other.key: key values mismatch"),
        (good.path, locked, "locked.key has a passphrase"),
        (good.path, empty, "empty has no key"),
        (good.path, workspace / "nosuch", "the key file " + str(workspace / "nosuch")),
        (empty, good.key, "empty has no certificate"),
        (text, good.key, "the certificate file " + str(text)),
        (large, good.key, "more than 16 certificates"),
        (workspace / "nosuch", good.key, "the certificate file"),
    ]:
        done = run_ipybox("serve", "--port=0", f"--tls-certificate={path}", f"--tls-key={key}")
        assert done.returncode in (1, 2) and words in done.stderr, done
        assert done.stdout == ""
    for mode in (0o604, 0o620, 0o660):
        good.key.chmod(mode)
        done = run_ipybox("serve", "--port=0", *good.options)
        assert done.returncode == 1 and "chmod 600" in done.stderr, done


@pytest.mark.needs_root
def test_key_of_a_group(ipybox, place, certificate):
    """A group that root chose may read the key."""
    certificate.key.chmod(0o640)
    with Serve(ipybox, place, *certificate.options, tls=certificate.context()) as server:
        assert server.client().cell("1") == "1"


@pytest.mark.parametrize("options", [["--tls-key=x"], ["--tls-certificate=x"]])
def test_usage(run_ipybox, options):
    done = run_ipybox("serve", *options)
    assert done.returncode == 2 and "belong together" in done.stderr
