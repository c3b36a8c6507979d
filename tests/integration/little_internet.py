# SPDX-License-Identifier: Apache-2.0
"""A host with an internet of its own, for tests of network access from sandboxes.

In mount and network namespaces of this process, names resolve as NAMES says, and servers listen on
public, private, loopback and metadata addresses. Nothing of the real network is there.

As a program, `little_internet.py DIRECTORY` creates it, with the test's certificates and files in
DIRECTORY. It then runs commands there, which it reads as JSON lines from stdin. `LittleInternet` is
the other end.
"""

from __future__ import annotations

import base64
import ctypes
import fcntl
import http.server
import ipaddress
import json
import os
import socket
import ssl
import struct
import subprocess
import sys
import threading
import urllib.parse
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

PUBLIC, PRIVATE, METADATA, LOOPBACK = "203.0.113.1", "10.1.2.3", "169.254.169.254", "127.0.0.1"
PUBLIC6 = "2001:db8::1"
# Only the proxy knows this name. The proxy requires a user and a password.
FAR, PROXY, PROXY_PORT, PROXY_USER = "far.test", "203.0.113.2", 3128, "user:proxy-secret"
ROUTES = ("203.0.113.0/24", "10.1.2.0/24", "169.254.169.254/32", "2001:db8::/64")
NAMES = {
    "good.test": PUBLIC,
    "evil.test": PUBLIC,  # the same server: rules are about names, not addresses
    "www.wild.test": PUBLIC,
    "port.test": PUBLIC,
    "git.test": PUBLIC,
    "index.test": PUBLIC,
    "registry.test": PUBLIC,
    "refused.test": "203.0.113.9",  # nothing listens
    "intranet.test": PRIVATE,
    "lan.wild.test": PRIVATE,
    "rebound.test": LOOPBACK,
    "metadata.test": METADATA,
    "six.test": PUBLIC6,
    "proxy.test": PROXY,
}
HTTP_PORTS, TLS_PORTS, ECHO_PORT, LOCAL_PORT = (80, 8080), (443, 8443), 7000, 3000
ABSTRACT = "\0ipybox-test"  # a service of the host, by abstract name

CLONE_NEWNS, CLONE_NEWUSER, CLONE_NEWNET = 0x00020000, 0x10000000, 0x40000000
IPV6_FREEBIND = 78
MS_REC, MS_PRIVATE, MS_BIND = 0x4000, 1 << 18, 0x1000
SIOCSIFFLAGS, IFF_UP = 0x8914, 1
RTM_NEWROUTE, NLM_F_REQUEST_CREATE_ACK, RT_TABLE_LOCAL, RTN_LOCAL = 24, 0x405, 255, 2

libc = ctypes.CDLL(None, use_errno=True)


def check(result: int, what: str) -> None:
    if result != 0:
        error = ctypes.get_errno()
        raise OSError(error, f"{what}: {os.strerror(error)}")


# The namespaces


def unshare() -> None:
    uid, gid = os.geteuid(), os.getegid()
    flags = CLONE_NEWNS | CLONE_NEWNET | (0 if uid == 0 else CLONE_NEWUSER)
    check(libc.unshare(flags), "unshare")
    if uid != 0:
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"{uid} {uid} 1")
        Path("/proc/self/gid_map").write_text(f"{gid} {gid} 1")
    check(libc.mount(None, b"/", None, MS_REC | MS_PRIVATE, None), "mount")


def raise_loopback() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        fcntl.ioctl(sock, SIOCSIFFLAGS, struct.pack("16sH14x", b"lo", IFF_UP))


def add_local_route(network: str) -> None:
    """`ip route add local NETWORK dev lo`: servers can listen on addresses of no interface."""
    target = ipaddress.ip_network(network)
    address = target.network_address.packed
    attributes = struct.pack("=HH", 4 + len(address), 1) + address + struct.pack("=HHI", 8, 4, 1)
    family = socket.AF_INET if target.version == 4 else socket.AF_INET6
    route = struct.pack(
        "=BBBBBBBBI", family, target.prefixlen, 0, 0, RT_TABLE_LOCAL, 3, 254, RTN_LOCAL, 0
    )
    size = 16 + len(route) + len(attributes)
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0) as sock:
        sock.send(
            struct.pack("=IHHII", size, RTM_NEWROUTE, NLM_F_REQUEST_CREATE_ACK, 1, 0)
            + route
            + attributes
        )
        error = struct.unpack_from("=i", sock.recv(4096), 16)[0]
        if error:
            raise OSError(-error, f"route to {network}: {os.strerror(-error)}")


def cover(path: str, content: str, directory: Path) -> None:
    """Gives a file of /etc another content, in this mount namespace."""
    copy = directory / Path(path).name
    copy.write_text(content)
    check(
        libc.mount(os.fsencode(copy), os.fsencode(os.path.realpath(path)), None, MS_BIND, None),
        path,
    )


# Certificates


def openssl(*arguments: str, directory: Path) -> None:
    subprocess.run(["openssl", *arguments], cwd=directory, check=True, capture_output=True)


def make_certificates(directory: Path) -> None:
    names = ",".join([*(f"DNS:{name}" for name in [*NAMES, FAR]), f"IP:{PUBLIC}"])
    (directory / "server.ext").write_text(f"subjectAltName={names}\nbasicConstraints=CA:FALSE\n")
    curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
    openssl(
        "req",
        "-x509",
        *curve,
        "-keyout",
        "ca.key",
        "-out",
        "ca.pem",
        "-days",
        "2",
        "-subj",
        "/CN=test CA",
        directory=directory,
    )
    openssl(
        "req",
        *curve,
        "-keyout",
        "server.key",
        "-out",
        "server.csr",
        "-subj",
        "/CN=test",
        directory=directory,
    )
    openssl(
        "x509",
        "-req",
        "-in",
        "server.csr",
        "-CA",
        "ca.pem",
        "-CAkey",
        "ca.key",
        "-CAcreateserial",
        "-out",
        "server.pem",
        "-days",
        "2",
        "-extfile",
        "server.ext",
        directory=directory,
    )


# The servers


class Handler(http.server.BaseHTTPRequestHandler):
    """Serves files below www, git repositories below git, and a WebSocket that echoes.

    Other requests get their own description as JSON.
    """

    protocol_version = "HTTP/1.1"
    root: Path

    def log_message(self, *args: object) -> None:
        pass

    def read_body(self) -> bytes:
        if self.headers.get("Transfer-Encoding") != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length", 0)))
        body = b""
        while size := int(self.rfile.readline(), 16):
            body += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return body

    def reply(self, status: int, content_type: str, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def serve(self) -> None:
        if self.headers.get("Upgrade") == "websocket":
            self.echo()
            return
        path = self.path.partition("?")[0]
        body = self.read_body()
        file = (self.root / "www" / path.lstrip("/")).resolve()
        if file.is_dir():
            file /= "index.html"
        if path.startswith("/git/"):
            self.git(path, body)
        elif file.is_file() and file.is_relative_to(self.root):
            self.reply(
                200,
                "text/html" if file.suffix == ".html" else "application/octet-stream",
                file.read_bytes(),
            )
        else:
            seen = {
                "method": self.command,
                "path": self.path,
                "headers": dict(self.headers),
                "body": len(body),
                "address": self.connection.getsockname()[0],
            }
            self.reply(200, "application/json", json.dumps(seen).encode())

    do_GET = do_HEAD = do_POST = do_PUT = serve

    def echo(self) -> None:
        self.send_response(101)
        self.send_header("Upgrade", "websocket")
        self.send_header("Connection", "Upgrade")
        self.end_headers()
        self.wfile.flush()
        while data := self.connection.recv(4096):
            self.connection.sendall(data)
        self.close_connection = True

    def git(self, path: str, body: bytes) -> None:
        environ = {
            "PATH": os.environ["PATH"],
            "GIT_PROJECT_ROOT": str(self.root),
            "GIT_HTTP_EXPORT_ALL": "1",
            "PATH_INFO": path,
            "QUERY_STRING": self.path.partition("?")[2],
            "REQUEST_METHOD": self.command,
            "CONTENT_TYPE": self.headers.get("Content-Type", ""),
            "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
            "REMOTE_USER": "test",
        }
        answer = subprocess.run(
            ["git", "http-backend"], input=body, env=environ, capture_output=True
        ).stdout
        head, _, content = answer.partition(b"\r\n\r\n")
        fields = dict(line.split(": ", 1) for line in head.decode().split("\r\n"))
        self.reply(int(fields.get("Status", "200")[:3]), fields["Content-Type"], content)


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256

    def handle_error(self, request: object, client_address: object) -> None:
        pass  # some tests have clients that hang up


def serve_http(address: str, port: int, context: ssl.SSLContext | None) -> None:
    server = Server((address, port), Handler)
    if context is not None:
        # The thread of the connection does the handshake.
        server.socket = context.wrap_socket(
            server.socket, server_side=True, do_handshake_on_connect=False
        )
    threading.Thread(target=server.serve_forever, daemon=True).start()


def serve_echo(address: str, port: int) -> None:
    listener = socket.create_server((address, port))

    def echo(client: socket.socket) -> None:
        with client:
            while data := client.recv(65536):
                client.sendall(data)

    def accept() -> None:
        while True:
            threading.Thread(target=echo, args=[listener.accept()[0]], daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()


def serve_public6() -> None:
    """No interface has the address. IPv6 needs an option for that."""
    listener = socket.socket(socket.AF_INET6)
    listener.setsockopt(socket.IPPROTO_IPV6, IPV6_FREEBIND, 1)
    listener.bind((PUBLIC6, 80))
    server = Server((PUBLIC6, 80), Handler, bind_and_activate=False)
    server.socket.close()
    server.socket = listener
    server.server_activate()
    threading.Thread(target=server.serve_forever, daemon=True).start()


def serve_datagrams(directory: Path) -> None:
    """Echoes datagrams, and is a name server that writes down its queries, as the far end of a DNS
    tunnel would. It knows no names.
    """
    echo, names = (socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(2))
    echo.bind((PUBLIC, ECHO_PORT))
    names.bind((PUBLIC, 53))
    asked = directory / "asked"
    asked.touch()

    def serve_echo() -> None:
        while True:
            data, peer = echo.recvfrom(4096)
            echo.sendto(data, peer)

    def serve_names() -> None:
        while True:
            query, peer = names.recvfrom(4096)
            with asked.open("ab") as file:
                file.write(query[12:] + b"\n")
            names.sendto(query[:2] + b"\x81\x83" + query[4:6] + bytes(6) + query[12:], peer)

    for function in (serve_echo, serve_names):
        threading.Thread(target=function, daemon=True).start()


class ProxyHandler(http.server.BaseHTTPRequestHandler):
    """Accepts http:// URLs, and CONNECT to port 443 only, as proxies do.

    Logs each request for `proxied`.
    """

    log: Path

    def log_message(self, *args: object) -> None:
        pass

    def admit(self) -> bool:
        wanted = "Basic " + base64.b64encode(PROXY_USER.encode()).decode()
        given = self.headers.get("Proxy-Authorization")
        status = (
            407
            if given != wanted
            else 403
            if self.command == "CONNECT" and not self.path.endswith(":443")
            else 200
        )
        with self.log.open("a") as file:
            file.write(f"{self.command} {self.path} {status}\n")
        if status != 200:
            self.send_error(status)
        return status == 200

    def connect(self, host: str, port: int) -> socket.socket:
        return socket.create_connection((PUBLIC if host == FAR else NAMES[host], port))

    def do_CONNECT(self) -> None:
        if not self.admit():
            return
        host, _, port = self.path.partition(":")
        with self.connect(host, int(port)) as server:
            self.send_response(200, "Connection established")
            self.end_headers()
            self.wfile.flush()
            back = threading.Thread(target=self.copy, args=[server, self.connection], daemon=True)
            back.start()
            self.copy(self.connection, server)
            back.join()
        self.close_connection = True

    def copy(self, source: socket.socket, target: socket.socket) -> None:
        try:
            while data := source.recv(65536):
                target.sendall(data)
            target.shutdown(socket.SHUT_WR)
        except OSError:
            pass

    def do_GET(self) -> None:
        if not self.admit():
            return
        url = urllib.parse.urlsplit(self.path)
        with self.connect(url.hostname or "", url.port or 80) as server:
            server.sendall(
                f"GET {url.path} HTTP/1.1\r\nHost: {url.netloc}\r\n"
                "Connection: close\r\n\r\n".encode()
            )
            while data := server.recv(65536):
                self.wfile.write(data)
        self.close_connection = True


def serve_proxy(directory: Path) -> None:
    ProxyHandler.log = directory / "proxied"
    ProxyHandler.log.touch()
    server = Server((PROXY, PROXY_PORT), ProxyHandler)
    threading.Thread(target=server.serve_forever, daemon=True).start()


def serve_abstract() -> None:
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(ABSTRACT)
    listener.listen()

    def accept() -> None:
        while True:
            with listener.accept()[0] as client:
                client.sendall(b"host\n")

    threading.Thread(target=accept, daemon=True).start()


def serve_all(directory: Path) -> None:
    Handler.root = directory
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(directory / "server.pem", directory / "server.key")
    for port in HTTP_PORTS:
        serve_http(PUBLIC, port, None)
    for port in TLS_PORTS:
        serve_http(PUBLIC, port, context)
    for address in (PRIVATE, METADATA):
        serve_http(address, 80, None)
    serve_http(LOOPBACK, LOCAL_PORT, None)
    serve_http(LOOPBACK, 80, None)
    serve_echo(LOOPBACK, ECHO_PORT)
    serve_echo(PUBLIC, ECHO_PORT)
    serve_public6()
    serve_datagrams(directory)
    serve_abstract()
    serve_proxy(directory)


def run(request: dict[str, Any]) -> list[Any]:
    """Status and output.

    A command that cannot run, or not in time, fails one test and not all others.
    """
    try:
        done = subprocess.run(
            request["command"],
            cwd=request["cwd"],
            env=request["environ"],
            input=request["stdin"].encode(),
            capture_output=True,
            timeout=request["timeout"],
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return [None, "", repr(error)]
    return [
        done.returncode,
        done.stdout.decode(errors="replace"),
        done.stderr.decode(errors="replace"),
    ]


def main(directory: Path) -> None:
    make_certificates(directory)
    unshare()
    raise_loopback()
    for network in ROUTES:
        add_local_route(network)
    hosts = "".join(f"{address} {name}\n" for name, address in NAMES.items())
    cover("/etc/hosts", f"127.0.0.1 localhost\n{hosts}", directory)
    cover("/etc/nsswitch.conf", "passwd: files\ngroup: files\nhosts: files\n", directory)
    if os.geteuid() == 0:
        Path("/proc/sys/net/ipv4/ping_group_range").write_text("0 2147483647")
    serve_all(directory)
    print("ready", flush=True)
    for line in sys.stdin:
        print(json.dumps(run(json.loads(line))), flush=True)


# The other end


@dataclass
class LittleInternet:
    directory: Path
    process: subprocess.Popen[str] = field(init=False)

    def __post_init__(self) -> None:
        (self.directory / "www").mkdir()
        self.process = subprocess.Popen(
            [sys.executable, "-I", __file__, str(self.directory)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == "ready\n"

    @property
    def ca(self) -> Path:
        return self.directory / "ca.pem"

    @property
    def asked(self) -> bytes:
        """The queries that the name server received."""
        return (self.directory / "asked").read_bytes()

    def proxied(self) -> list[str]:
        """The requests that the proxy received since the last call."""
        path = self.directory / "proxied"
        lines = path.read_text().splitlines()
        path.write_text("")
        return lines

    def run(
        self,
        command: list[str],
        cwd: Path,
        environ: dict[str, str],
        stdin: str = "",
        timeout: float = 60,
    ) -> subprocess.CompletedProcess[str]:
        request: dict[str, Any] = {
            "command": command,
            "cwd": str(cwd),
            "environ": environ,
            "stdin": stdin,
            "timeout": timeout,
        }
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        status, stdout, stderr = json.loads(self.process.stdout.readline())
        return subprocess.CompletedProcess(command, status, stdout, stderr)

    def close(self) -> None:
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.close()
        self.process.wait(60)
        self.process.stdout.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
