# SPDX-License-Identifier: Apache-2.0
"""`ipybox serve`: files of the workspace over HTTP, `/files/…`."""

from __future__ import annotations

import gzip
import http.client
import io
import json
import os
import random
import socket
import subprocess
import tarfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from docs_blocks import fenced
from harness import ROOT
from meeting import Meeting
from serve_driver import TIMEOUT, Background, Serve, send_raw, write_tokens

ALICE, BOB = "a" * 32, "b" * 32


@pytest.fixture
def serve(ipybox, place) -> Iterator[Serve]:
    with Serve(ipybox, place) as server:
        yield server


class Answer:
    def __init__(self, response: http.client.HTTPResponse):
        self.status, self.headers = response.status, response.headers
        self.body = response.read()

    @property
    def error(self) -> str:
        return json.loads(self.body)["error"]

    def json(self) -> Any:
        return json.loads(self.body)


def call(
    server: Serve, method: str, path: str, body: Any = None, token: str | None = None, **headers
) -> Answer:
    connection = server.connection()
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    names = {"Authorization": f"Bearer {token or server.token}"} | names
    connection.request(method, f"/files/{path}", body, names)
    answer = Answer(connection.getresponse())
    connection.close()
    return answer


def make_tar(*members: tuple[tarfile.TarInfo, bytes], mode: str = "w") -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode=mode) as archive:
        for member, data in members:
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    return out.getvalue()


def member(name: str, type: bytes = tarfile.REGTYPE, target: str = "") -> tarfile.TarInfo:
    found = tarfile.TarInfo(name)
    found.type, found.linkname = type, target
    return found


def names_of(directory: Path) -> set[str]:
    """Files, and directories without a file; also of what an upload could have left."""
    return {
        str(path.relative_to(directory))
        for path in directory.rglob("*")
        if not path.is_dir() or not any(path.iterdir())
    } - {"mcptools"}


# --- up and down ------------------------------------------------------------------------------


def test_up_and_down(serve, workspace):
    """Each side sees what the other has written."""
    data = random.Random(1).randbytes(3_000_000)
    answer = call(serve, "PUT", "data/in/values.bin", data)
    assert (answer.status, answer.body) == (201, b"")
    assert (workspace / "data/in/values.bin").read_bytes() == data
    code = "data = open('data/in/values.bin', 'rb').read(); open('out.bin', 'wb').write(data[::-1])"
    serve.client().cell(code)
    answer = call(serve, "GET", "out.bin")
    assert (answer.status, answer.body) == (200, data[::-1])
    assert answer.headers["Content-Length"] == str(len(data))
    answer = call(serve, "PUT", "out.bin", b"")
    assert (answer.status, (workspace / "out.bin").read_bytes()) == (204, b"")
    assert call(serve, "GET", "out.bin").body == b""
    assert call(serve, "DELETE", "out.bin").status == 204
    assert call(serve, "DELETE", "out.bin").status == 404
    assert not (workspace / "out.bin").exists()


def test_list(serve, workspace):
    (workspace / "b.txt").write_text("hello")
    (workspace / "a").mkdir()
    entries = {e["name"]: e for e in call(serve, "GET", "").json()["entries"]}
    assert entries["b.txt"]["kind"] == "file" and entries["b.txt"]["size"] == 5
    assert entries["b.txt"]["mtime"] == int((workspace / "b.txt").stat().st_mtime)
    assert entries["a"]["kind"] == "directory"
    assert f'"{entries["b.txt"]["etag"]}"' == call(serve, "HEAD", "b.txt").headers["ETag"]
    assert call(serve, "GET", "a/").json() == {"entries": []}
    answer = call(serve, "GET", "a")
    assert (answer.status, answer.headers["Location"]) == (301, "./a/")
    assert "add a slash" in answer.error
    assert call(serve, "GET", "b.txt/").status == 404


@pytest.mark.parametrize(
    "name", ["with space.txt", "ä/ü.txt", "100%.txt", "a?b#c", "+&=", "x\\y", "nb\u202fsp"]
)
def test_names(serve, workspace, name):
    assert call(serve, "PUT", quote(name), b"1").status == 201
    assert (workspace / name).read_bytes() == b"1"
    assert call(serve, "GET", quote(name)).body == b"1"


def test_directories(serve, workspace):
    assert call(serve, "PUT", "a/b/").status == 201
    assert call(serve, "PUT", "a/b/").status == 204
    assert (workspace / "a/b").is_dir()
    assert "?format=tar" in call(serve, "PUT", "a/b/", b"x").error
    assert call(serve, "DELETE", "a/b/").status == 204
    assert call(serve, "PUT", "a/c.txt", b"1").status == 201
    answer = call(serve, "DELETE", "a/")
    assert answer.status == 409 and "?recursive=true" in answer.error
    assert call(serve, "DELETE", "a/?recursive=true").status == 204
    assert names_of(workspace) == set()
    assert call(serve, "DELETE", "?recursive=true").status == 400


def test_an_existing_file_keeps_its_mode(serve, workspace):
    (workspace / "run.sh").write_text("1")
    (workspace / "run.sh").chmod(0o750)
    assert call(serve, "PUT", "run.sh", b"2").status == 204
    assert (workspace / "run.sh").stat().st_mode & 0o777 == 0o750


def test_chunks(serve, workspace):
    """As `curl -T -` sends what comes from a pipe."""
    pieces = [b"a" * 70_000, b"b", b"c" * 300_000]
    connection = serve.connection()
    headers = {"Authorization": f"Bearer {serve.token}"}
    connection.request("PUT", "/files/x", iter(pieces), headers, encode_chunked=True)
    assert connection.getresponse().status == 201
    connection.close()
    assert (workspace / "x").read_bytes() == b"".join(pieces)


def test_one_connection(serve):
    """It is kept between the requests, also after errors and uploads."""
    connection = serve.connection()
    headers = {"Authorization": f"Bearer {serve.token}"}
    for method, path, body, status in [
        ("PUT", "a", b"1" * 1000, 201),
        ("GET", "a", None, 200),
        ("HEAD", "a", None, 200),
        ("GET", "missing", None, 404),
        ("PUT", "b", b"", 201),
        ("GET", "", None, 200),
        ("DELETE", "a", None, 204),
    ]:
        connection.request(method, f"/files/{path}", body, headers)
        response = connection.getresponse()
        assert response.status == status, (method, path, response.read())
        response.read()
        assert not response.will_close
    connection.close()


def test_continue(serve, workspace):
    """A refused upload is refused before its body is sent."""
    (workspace / "x").write_text("1")
    head = (
        f"PUT /files/x HTTP/1.1\r\nHost: localhost:{serve.port}\r\nContent-Length: 1000000\r\n"
        f"Authorization: Bearer {serve.token}\r\nExpect: 100-continue\r\n"
    )
    found = send_raw(serve.port, f"{head}If-None-Match: *\r\n\r\n".encode())
    assert found.startswith(b"HTTP/1.1 412 ") and b"Connection: close" in found
    with socket.create_connection(("127.0.0.1", serve.port)) as peer:
        peer.sendall(f"{head}\r\n".encode())
        assert peer.recv(1000) == b"HTTP/1.1 100 Continue\r\n\r\n"
        peer.sendall(b"2" * 1_000_000)
        assert peer.recv(1000).startswith(b"HTTP/1.1 204 ")
    assert (workspace / "x").read_bytes() == b"2" * 1_000_000


def test_how_to(serve, workspace, place):
    """The commands of docs/how-to/serve.md."""
    document = (ROOT / "docs/how-to/serve.md").read_text()
    (block,) = (b for b in fenced("serve.md", document) if "/files" in b.text and "curl" in b.text)
    commands = block.text.replace("localhost:8901", f"localhost:{serve.port}")
    (place.home / "data.csv").write_text("a,b\n")
    (place.home / "in").mkdir()
    (place.home / "in/x").write_text("x")
    done = subprocess.run(
        ["bash", "-e", "-o", "pipefail", "-c", commands],
        cwd=place.home,
        env=place.environ | {"TOKEN": serve.token},
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
    )
    assert done.returncode == 0, done.stderr
    assert (place.home / "copy.csv").read_text() == "a,b\n"
    assert '"name": "data.csv"' in done.stdout.replace('":"', '": "')
    assert done.stdout.endswith("in/\nin/x\n")
    assert names_of(workspace) == {"in/data.csv"}


# --- conditions and ranges --------------------------------------------------------------------


def test_conditions(serve, workspace):
    tag = call(serve, "PUT", "x", b"1", If_None_Match="*").headers["ETag"]
    assert call(serve, "PUT", "x", b"2", If_None_Match="*").status == 412
    assert call(serve, "GET", "x").headers["ETag"] == tag
    answer = call(serve, "GET", "x", If_None_Match=f'"y", W/{tag}')
    assert (answer.status, answer.body, answer.headers["ETag"]) == (304, b"", tag)
    date = call(serve, "GET", "x").headers["Last-Modified"]
    assert call(serve, "GET", "x", If_Modified_Since=date).status == 304
    assert call(serve, "GET", "x", If_Match='"y"').status == 412
    newer = call(serve, "PUT", "x", b"22", If_Match=tag).headers["ETag"]
    assert newer != tag
    assert call(serve, "PUT", "x", b"3", If_Match=tag).status == 412
    assert call(serve, "DELETE", "x", If_Match=tag).status == 412
    assert call(serve, "PUT", "y", b"3", If_Match="*").status == 412
    assert call(serve, "PUT", "x", b"3", If_Match="no tag").status == 400
    assert (workspace / "x").read_bytes() == b"22"
    assert call(serve, "DELETE", "x", If_Match=newer).status == 204


def test_a_change_during_a_conditional_upload(serve, workspace):
    tag = call(serve, "PUT", "x", b"1").headers["ETag"]
    begun = threading.Event()
    go = threading.Event()

    def body() -> Iterator[bytes]:
        begun.set()
        yield b"upload"
        assert go.wait(60)
        yield b"ed"

    def upload() -> int:
        connection = serve.connection()
        headers = {"Authorization": f"Bearer {serve.token}", "If-Match": tag}
        connection.request("PUT", "/files/x", body(), headers, encode_chunked=True)
        status = connection.getresponse().status
        connection.close()
        return status

    running = Background(upload)
    assert begun.wait(60)
    assert call(serve, "GET", "x").body == b"1"
    (workspace / "x").write_text("other")
    go.set()
    # The change came before the program looked, or after that.
    assert running.result() == 412
    assert (workspace / "x").read_text() == "other"


@pytest.mark.parametrize(
    ("range", "status", "body", "content_range"),
    [
        ("bytes=0-3", 206, b"0123", "bytes 0-3/10"),
        ("bytes=7-", 206, b"789", "bytes 7-9/10"),
        ("bytes=-2", 206, b"89", "bytes 8-9/10"),
        ("bytes=5-100", 206, b"56789", "bytes 5-9/10"),
        ("bytes=10-", 416, None, "bytes */10"),
        ("bytes=-0", 416, None, "bytes */10"),
        ("bytes=0-1,3-4", 200, b"0123456789", None),
        ("bytes=4-2", 200, b"0123456789", None),
        ("lines=1-2", 200, b"0123456789", None),
        ("bytes=99999999999999999999-", 200, b"0123456789", None),
    ],
)
def test_ranges(serve, range, status, body, content_range):
    call(serve, "PUT", "x", b"0123456789")
    answer = call(serve, "GET", "x", Range=range)
    assert answer.status == status
    assert answer.headers["Content-Range"] == content_range
    assert body is None or answer.body == body


def test_if_range(serve):
    tag = call(serve, "PUT", "x", b"0123456789").headers["ETag"]
    assert call(serve, "GET", "x", Range="bytes=0-0", If_Range=tag).status == 206
    assert call(serve, "GET", "x", Range="bytes=0-0", If_Range='"other"').status == 200


def test_browsers_save_files(serve):
    """What a cell has written does not run with the server's origin."""
    call(serve, "PUT", quote("page ü.html"), b"<script>alert(1)</script>")
    headers = call(serve, "GET", quote("page ü.html")).headers
    assert headers["Content-Disposition"] == "attachment; filename*=UTF-8''page%20%C3%BC.html"
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Content-Security-Policy"].startswith("sandbox;")
    assert headers["Content-Type"] == "text/html"


# --- archives ---------------------------------------------------------------------------------


def test_archives(serve, workspace):
    data = random.Random(2).randbytes(500_000)
    sent = make_tar(
        (member("./", tarfile.DIRTYPE), b""),
        (member("sub/", tarfile.DIRTYPE), b""),
        (member("./sub/data"), data),
        (member("run.sh"), b"1"),
        (member("empty/", tarfile.DIRTYPE), b""),
    )
    answer = call(serve, "PUT", "up/load/?format=tar", sent)
    assert (answer.status, answer.json()) == (200, {"files": 2})
    assert names_of(workspace) == {"up/load/sub/data", "up/load/run.sh", "up/load/empty"}
    answer = call(serve, "GET", "up/?format=tar")
    assert answer.headers["Content-Disposition"].endswith("''up.tar")
    with tarfile.open(fileobj=io.BytesIO(answer.body)) as archive:
        assert set(archive.getnames()) == {
            "load",
            "load/sub",
            "load/sub/data",
            "load/run.sh",
            "load/empty",
        }
        file = archive.extractfile("load/sub/data")
        assert file and file.read() == data
    assert call(serve, "PUT", "again/?format=tar", gzip.compress(answer.body)).status == 200
    assert (workspace / "again/load/sub/data").read_bytes() == data
    assert call(serve, "GET", "missing/?format=tar").status == 404
    assert call(serve, "GET", "up?format=tar").status == 400


def test_an_archive_replaces_files(serve, workspace):
    (workspace / "x").write_text("old")
    assert call(serve, "PUT", "?format=tar", make_tar((member("x"), b"new"))).status == 200
    assert (workspace / "x").read_text() == "new"


GOOD = (member("good"), b"1")
BAD_MEMBERS = {
    "parent": (member("../evil"), b"1"),
    "parent inside": (member("a/../../evil"), b"1"),
    "absolute": (member("/tmp/evil"), b"1"),
    "symbolic link": (member("evil", tarfile.SYMTYPE, "/etc/passwd"), b""),
    "hard link": (member("evil", tarfile.LNKTYPE, "good"), b""),
    "device": (member("evil", tarfile.CHRTYPE), b""),
    "FIFO": (member("evil", tarfile.FIFOTYPE), b""),
    "control character": (member("e\nvil"), b"1"),
    "depth": (member("d/" * 100 + "evil"), b"1"),
}


@pytest.mark.parametrize("what", BAD_MEMBERS)
def test_bad_members(serve, workspace, what):
    """Nothing of the archive is written."""
    answer = call(serve, "PUT", "?format=tar", make_tar(GOOD, BAD_MEMBERS[what]))
    assert answer.status in (413, 422), answer.body
    assert "archive" in answer.error
    assert names_of(workspace) == set()


def bomb() -> bytes:
    """A gzip of a header that promises a terabyte of zeros, and a part of them."""
    header = member("bomb")
    header.size = 1 << 40
    return gzip.compress(header.tobuf() + bytes(50_000_000))


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"no tar" * 1000,
        make_tar(GOOD, (member("x"), b"1" * 100_000))[:50_000],
        gzip.compress(make_tar(GOOD))[:-20],
        bomb(),
        bytes(10240),
    ],
    ids=["empty", "text", "cut", "cut gzip", "bomb", "zeros"],
)
def test_damaged_archives(serve, workspace, data):
    answer = call(serve, "PUT", "?format=tar", data)
    assert answer.status in (413, 422), answer.body
    assert names_of(workspace) == set()


# --- attacks ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "path",
    [
        "../x",
        "a/../../x",
        "%2e%2e/x",
        "..%2fx",
        "a%2f..%2f..%2fx",
        "/etc/passwd",
        "%2fetc%2fpasswd",
        "./x",
        "a//b",
        "x%00y",
        "x%0ay",
        "%zz",
        "%ff",
        "a" * 5000,
    ],
)
@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE"])
def test_bad_paths(serve, workspace, method, path):
    """http.client sends the path as it is."""
    answer = call(serve, method, path, b"evil" if method == "PUT" else None)
    assert answer.status == 400, answer.body
    assert not (workspace.parent / "x").exists()
    assert names_of(workspace) == set()


def test_links_are_not_followed(serve, workspace, place):
    secret = place.home / "secret"
    secret.mkdir()
    (secret / "file").write_text("secret")
    (workspace / "link").symlink_to(secret / "file")
    (workspace / "directory").symlink_to(secret)
    os.mkfifo(workspace / "pipe")
    for path in ("link", "directory", "directory/", "directory/file", "pipe"):
        assert call(serve, "GET", path).status == 404, path
    names = {entry["name"] for entry in call(serve, "GET", "").json()["entries"]}
    assert names <= {"mcptools"}
    for path in ("link", "directory", "directory/new", "pipe"):
        assert call(serve, "PUT", path, b"evil").status == 409, path
    assert call(serve, "DELETE", "directory/file").status in (404, 409)
    assert call(serve, "PUT", "directory/?format=tar", make_tar(GOOD)).status == 409
    assert call(serve, "DELETE", "directory?recursive=true").status == 204
    assert names_of(secret) == {"file"} and (secret / "file").read_text() == "secret"


def test_links_during_requests(serve, workspace, place):
    """While a cell exchanges a directory and a link, no request reads or writes elsewhere."""
    secret = place.home / "secret"
    secret.mkdir()
    (secret / "file").write_text("secret")
    go, done = Meeting(workspace / "go"), Meeting(workspace / "done")
    code = f"""
import os, threading
os.makedirs("real", exist_ok=True)
open("real/file", "w").write("real")
os.symlink({str(secret)!r}, "other")
ended = threading.Event()
def swap():
    while not ended.is_set():
        os.rename("real", "spare"); os.rename("other", "real")
        os.rename("real", "other"); os.rename("spare", "real")
thread = threading.Thread(target=swap)
thread.start()
{go.code}
{done.code}
ended.set()
thread.join()
"""
    cell = Background(lambda: serve.client().cell(code))
    go.wait()
    found = set()
    for n in range(30):
        answer = call(serve, "GET", "real/file")
        found.add((answer.status, answer.body if answer.status == 200 else b""))
        call(serve, "PUT", f"real/new{n}", b"new")
        call(serve, "PUT", "real/?format=tar", make_tar((member(f"tar{n}"), b"new")))
    done.wait()
    cell.result()
    assert found <= {(200, b"real"), (404, b"")}
    assert names_of(secret) == {"file"} and (secret / "file").read_text() == "secret"


def test_protected_names(serve, workspace):
    """A client can read and write exactly what a cell can."""
    (workspace / ".env").write_text("KEY=1")
    (workspace / ".git").mkdir()
    (workspace / ".git/config").write_text("[core]\n")
    (workspace / ".vscode").mkdir()
    (workspace / ".vscode/settings.json").write_text("{}")
    assert call(serve, "GET", ".env").status == 404
    assert ".env" not in {e["name"] for e in call(serve, "GET", "").json()["entries"]}
    archive = call(serve, "GET", "?format=tar").body
    with tarfile.open(fileobj=io.BytesIO(archive)) as found:
        assert ".env" not in found.getnames()
    for path in (".env", ".git/hooks/pre-commit", ".git/config", ".vscode/tasks.json", ".mcp.json"):
        before = (workspace / path).read_bytes() if (workspace / path).exists() else None
        answer = call(serve, "PUT", path, b"evil")
        assert answer.status == 403, (path, answer.body)
        assert "cells may not write this" in answer.error
        answer = call(serve, "PUT", "?format=tar", make_tar((member(path), b"evil")))
        assert answer.status == 403, (path, answer.body)
        after = (workspace / path).read_bytes() if (workspace / path).exists() else None
        assert before == after


def test_removing_protected_names(serve, workspace):
    """The same is left as after a cell has tried it."""
    for name in ("by-cell", "by-request"):
        for path in (".git/config", ".git/hooks/pre-commit", ".vscode/settings.json", "other"):
            (workspace / name / path).parent.mkdir(parents=True, exist_ok=True)
            (workspace / name / path).write_text("1")
    code = """
import os
for way, directories, files in os.walk("by-cell", topdown=False):
    for name in files:
        try: os.unlink(f"{way}/{name}")
        except OSError: pass
    try: os.rmdir(way)
    except OSError: pass
"""
    serve.client().cell(code)
    kept = names_of(workspace / "by-cell")
    assert call(serve, "DELETE", "by-request?recursive=true").status == (403 if kept else 204)
    for path in kept:
        assert (workspace / "by-request" / path).exists()


def test_other_principals(ipybox, place):
    tokens = write_tokens(place.home / "tokens", alice=ALICE, bob=BOB)
    with Serve(ipybox, place, tokens) as server:
        assert call(server, "PUT", "mine", b"alice", token=ALICE).status == 201
        assert call(server, "GET", "mine", token=ALICE).body == b"alice"
        assert call(server, "GET", "mine", token=BOB).status == 404
        for path in ("../alice/mine", "%2e%2e/alice/mine", "..%2falice%2fmine"):
            assert call(server, "GET", path, token=BOB).status == 400
        code = "import os; os.symlink('../alice', 'way')"
        server.client(BOB).cell(code)
        assert call(server, "GET", "way/mine", token=BOB).status == 404
        assert call(server, "GET", "mine", token="c" * 32).status == 401


def test_gate(serve):
    port = serve.port
    for headers, status in [
        ({"Authorization": "Bearer wrong"}, 401),
        ({"Host": "evil.example"}, 403),
        ({"Origin": "http://evil.example"}, 403),
    ]:
        assert call(serve, "PUT", "x", b"1", **headers).status == status
    found = send_raw(port, f"GET /files/ HTTP/1.1\r\nHost: localhost:{port}\r\n\r\n".encode())
    assert found.startswith(b"HTTP/1.1 401 ")
    assert call(serve, "POST", "x", b"1").status == 405
    assert call(serve, "GET", "x", b"body").status == 413


@pytest.mark.parametrize(
    "body",
    [
        b"Transfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n4\r\nevil\r\n0\r\n\r\n",
        b"Transfer-Encoding: gzip, chunked\r\n\r\n4\r\nevil\r\n0\r\n\r\n",
        b"Transfer-Encoding: chunked\r\n\r\nx\r\nevil\r\n0\r\n\r\n",
        b"Transfer-Encoding: chunked\r\n\r\n4;a=b\r\nevil\r\n0\r\n\r\n",
        b"Transfer-Encoding: chunked\r\n\r\n4\nevil\n0\n\n",
        b"Transfer-Encoding: chunked\r\n\r\n4\r\nevil0\r\n\r\n",
        b"Transfer-Encoding: chunked\r\n\r\n4\r\nevil\r\n0\r\nTrailer: x\r\n\r\n",
        b"Transfer-Encoding: chunked\r\n\r\n-1\r\nevil\r\n0\r\n\r\n",
        b"Transfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\nevil\r\n0\r\n\r\n",
        b"Content-Length: 17179869185\r\n\r\nevil",
        b"Content-Length: 4\r\nContent-Range: bytes 0-3/4\r\n\r\nevil",
    ],
)
def test_malformed_bodies(serve, workspace, body):
    head = f"PUT /files/x HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {serve.token}\r\n"
    head = head.replace("localhost", f"localhost:{serve.port}")
    with socket.create_connection(("127.0.0.1", serve.port), timeout=120) as peer:
        peer.sendall(head.encode() + body)
        found = peer.recv(1000)
    assert found.startswith((b"HTTP/1.1 400 ", b"HTTP/1.1 413 ")), found
    assert names_of(workspace) == set()
    assert call(serve, "PUT", "y", b"1").status == 201


def test_chunks_elsewhere(serve):
    """Other paths take no chunks."""
    head = f"POST /mcp HTTP/1.1\r\nHost: localhost:{serve.port}\r\n"
    head += f"Authorization: Bearer {serve.token}\r\nContent-Type: application/json\r\n"
    found = send_raw(
        serve.port, f"{head}Transfer-Encoding: chunked\r\n\r\n2\r\n[]\r\n0\r\n\r\n".encode()
    )
    assert found.startswith(b"HTTP/1.1 411 "), found


def test_a_broken_upload_leaves_nothing(serve, workspace):
    (workspace / "x").write_text("before")
    for framing, rest in [
        ("Content-Length: 100000", b"1" * 50_000),
        ("Transfer-Encoding: chunked", b"5\r\nhello\r\n"),
    ]:
        for path in ("x", "new/y", "tar/?format=tar"):
            with socket.create_connection(("127.0.0.1", serve.port)) as peer:
                head = (
                    f"PUT /files/{path} HTTP/1.1\r\nHost: localhost:{serve.port}\r\n"
                    f"Authorization: Bearer {serve.token}\r\n{framing}\r\n"
                    "Expect: 100-continue\r\n\r\n"
                )
                peer.sendall(head.encode())
                assert peer.recv(100).startswith(b"HTTP/1.1 100 ")
                peer.sendall(rest)
    # Requests of a client have turns, so the broken ones have ended before these.
    for n in range(8):
        assert call(serve, "PUT", f"after{n}", b"1").status == 201
    assert (workspace / "x").read_text() == "before"
    left = {name for name in names_of(workspace) if not name.startswith("after")}
    assert left <= {"x", "new", "tar"}


def test_slow_clients(serve, workspace):
    """Clients that neither read nor send do not keep others waiting."""
    data = bytes(30_000_000)
    (workspace / "large").write_bytes(data)
    peers = []
    for _ in range(3):
        peer = socket.create_connection(("127.0.0.1", serve.port))
        head = f"GET /files/large HTTP/1.1\r\nHost: localhost:{serve.port}\r\n"
        peer.sendall(f"{head}Authorization: Bearer {serve.token}\r\n\r\n".encode())
        assert peer.recv(100).startswith(b"HTTP/1.1 200 ")
        peers.append(peer)
    assert call(serve, "GET", "large").body == data
    assert serve.client().cell("6 * 7") == "42"
    for peer in peers:
        peer.close()


def test_many_requests(serve, workspace):
    """More than run at a time: they wait for their turn."""
    tasks = [
        Background(lambda n=n: call(serve, "PUT", f"f{n}", str(n).encode()).status)
        for n in range(20)
    ]
    assert [task.result() for task in tasks] == [201] * 20
    assert {(workspace / f"f{n}").read_text() for n in range(20)} == {str(n) for n in range(20)}


# --- kinds of servers -------------------------------------------------------------------------


def test_unsandboxed(ipybox, place, workspace):
    with Serve(ipybox, place, "--unsandboxed-kernels") as server:
        assert call(server, "PUT", "a/x", b"1").status == 201
        assert call(server, "GET", "a/x").body == b"1"
        (workspace / "link").symlink_to("a")
        assert call(server, "GET", "link/x").status == 404
        assert call(server, "PUT", "?format=tar", make_tar(GOOD)).json() == {"files": 1}


def test_staged(ipybox, place, workspace):
    """If commits need no approval, uploads are in the workspace at once. What cells write is there
    after a commit."""
    with Serve(ipybox, place, "--staged", "--approve=allow") as server:
        assert call(server, "PUT", "in", b"1").status == 201
        assert (workspace / "in").read_bytes() == b"1"
        client = server.client()
        assert client.cell("open('out', 'w').write(open('in').read() + '2')") == "2"
        assert call(server, "GET", "out").status == 404
        answer = client.call("commit_changes", {}).messages()[-1]
        assert not answer["result"]["isError"], answer
        assert call(server, "GET", "out").body == b"12"


@pytest.mark.parametrize("options", [[], ["--approve=ask"], ["--approve=deny"]])
def test_staged_with_approvals(ipybox, place, workspace, options):
    """An upload cannot go round the approval of commits. Files can be read."""
    (workspace / "x").write_text("before")
    with Serve(ipybox, place, "--staged", *options) as server:
        for method, path in (("PUT", "x"), ("PUT", "d/"), ("PUT", "?format=tar"), ("DELETE", "x")):
            answer = call(server, method, path)
            assert answer.status == 403 and "--approve=allow" in answer.error
        assert call(server, "GET", "x").body == b"before"


def test_a_removed_client(ipybox, place):
    """Its uploads end, and leave nothing."""
    tokens = place.home / "tokens"
    option = write_tokens(tokens, alice=ALICE, bob=BOB)
    with Serve(ipybox, place, option) as server:
        with socket.create_connection(("127.0.0.1", server.port), timeout=120) as peer:
            head = f"PUT /files/x HTTP/1.1\r\nHost: localhost:{server.port}\r\n"
            head += f"Authorization: Bearer {BOB}\r\nContent-Length: 1000\r\n"
            peer.sendall(f"{head}Expect: 100-continue\r\n\r\n".encode())
            assert peer.recv(1000).startswith(b"HTTP/1.1 100 ")
            peer.sendall(b"1" * 500)
            write_tokens(tokens, alice=ALICE)
            server.process.send_signal(1)
            assert peer.recv(1000).startswith(b"HTTP/1.1 503 ")
        assert call(server, "GET", "x", token=BOB).status == 401
        assert names_of(place.workspace / "bob") <= {"mcptools"}


def test_the_end_of_the_server(ipybox, place, workspace):
    """An upload that has not ended when the server ends leaves nothing."""
    with Serve(ipybox, place) as server:
        peer = socket.create_connection(("127.0.0.1", server.port))
        head = f"PUT /files/x HTTP/1.1\r\nHost: localhost:{server.port}\r\n"
        head += f"Authorization: Bearer {server.token}\r\nContent-Length: 1000\r\n"
        peer.sendall(f"{head}Expect: 100-continue\r\n\r\n".encode())
        assert peer.recv(1000).startswith(b"HTTP/1.1 100 ")
        peer.sendall(b"1" * 500)
    peer.close()
    assert names_of(workspace) == set()
