# SPDX-License-Identifier: Apache-2.0
"""Tries what the arguments say, and reports the results.

Each argument is a JSON list of an action's name and its arguments. Prints a JSON object: the
argument's text → the result.
"""

import errno
import json
import os
import socket
import ssl
import struct
import sys

HTTP_PROXY, SOCKS = ("127.0.0.1", 3128), ("127.0.0.1", 1080)
TIMEOUT = 20


def connect(host, port, family=socket.AF_INET):
    sock = socket.socket(family)
    sock.settimeout(TIMEOUT)
    sock.connect((host, port))
    return sock


def read_all(sock):
    data = b""
    while True:
        part = sock.recv(65536)
        if not part:
            return data
        data += part


def tcp(host, port):
    connect(host, port).close()
    return "connected"


def tcp6(host, port):
    connect(host, port, socket.AF_INET6).close()
    return "connected"


def http(host, port, name, path="/"):
    """What a program that does not use proxies does; @name: for Host."""
    with connect(host, port) as sock:
        sock.sendall(
            "GET {} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n".format(path, name).encode()
        )
        return read_all(sock).decode("latin-1").split("\r\n")[0][9:12]


def handshake(sock, name):
    context = ssl.create_default_context(cafile=os.environ.get("SSL_CERT_FILE"))
    context.check_hostname = False
    with context.wrap_socket(sock, server_hostname=name) as stream:
        return "tls" if stream.getpeercert() else "no certificate"


def tls(host, port, name):
    return handshake(connect(host, port), name)


def proxy(head):
    """The status of the proxy's answer to these bytes (as Latin-1)."""
    with connect(*HTTP_PROXY) as sock:
        sock.sendall(head.encode("latin-1"))
        return read_all(sock).decode("latin-1").split("\r\n")[0][9:12]


def tunnel(target):
    """(the socket, the status) of CONNECT."""
    sock = connect(*HTTP_PROXY)
    sock.sendall("CONNECT {0} HTTP/1.1\r\nHost: {0}\r\n\r\n".format(target).encode("latin-1"))
    answer = b""
    while b"\r\n\r\n" not in answer:
        part = sock.recv(4096)
        if not part:
            break
        answer += part
    return sock, answer.decode("latin-1")[9:12]


def connect_tunnel(target):
    sock, status = tunnel(target)
    sock.close()
    return status


def connect_tls(target, name):
    sock, status = tunnel(target)
    return handshake(sock, name) if status == "200" else status


def connect_http(target, name):
    sock, status = tunnel(target)
    if status != "200":
        return status
    with sock:
        sock.sendall(
            "GET / HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n".format(name).encode()
        )
        return read_all(sock).decode("latin-1")[9:12]


def connect_raw(target, text):
    """The answer to bytes that are not a request."""
    sock, status = tunnel(target)
    if status != "200":
        return status
    with sock:
        sock.sendall(text.encode("latin-1"))
        sock.shutdown(socket.SHUT_WR)
        return read_all(sock).decode("latin-1")


def socks(host, port, kind=3, command=1):
    """The code of the SOCKS5 proxy's reply; kinds: 1 IPv4 address, 3 name, 4 IPv6 address."""
    if kind == 3:
        name = host.encode("latin-1")
        address = bytes([len(name)]) + name
    else:
        address = socket.inet_pton(socket.AF_INET if kind == 1 else socket.AF_INET6, host)
    with connect(*SOCKS) as sock:
        sock.sendall(b"\5\1\0")
        assert sock.recv(2) == b"\5\0"
        sock.sendall(bytes([5, command, 0, kind]) + address + struct.pack(">H", port))
        answer = sock.recv(10)
        return answer[1] if len(answer) > 1 else "closed"


def socks_text(host, port):
    """The bytes that are sent after the reply."""
    name = host.encode()
    with connect(*SOCKS) as sock:
        sock.sendall(b"\5\1\0\5\1\0\3" + bytes([len(name)]) + name + struct.pack(">H", port))
        return read_all(sock)[12:].decode("latin-1")


def websocket(way, name):
    sock = connect(name, 80) if way == "direct" else tunnel(name + ":80")[0]
    with sock:
        sock.sendall(
            b"GET / HTTP/1.1\r\nHost: %s\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n"
            % name.encode()
        )
        assert b" 101 " in sock.recv(4096)
        sock.sendall(b"hello")
        return sock.recv(4096).decode()


def echo(host, port):
    with connect(host, port) as sock:
        sock.sendall(b"hello")
        return sock.recv(16).decode()


def answers(head):
    """How many answers come to several requests on one connection to the proxy."""
    with connect(*HTTP_PROXY) as sock:
        sock.sendall(head.encode("latin-1"))
        return read_all(sock).count(b"HTTP/1.1 ")


def flood(number):
    """Connections that send nothing, until no place is left.

    When they are closed, there is a place again.
    """
    idle = [connect(*HTTP_PROXY) for _ in range(number)]
    request = "GET http://good.test/ HTTP/1.1\r\nHost: good.test\r\n\r\n"
    crowded = proxy(request)
    for sock in idle:
        sock.close()
    while True:  # the new one may be seen before the end of the old ones
        status = proxy(request)
        if status != "503":
            return [crowded, status]


def write(path, text):
    with open(path, "w") as file:
        file.write(text)
    return "written"


def resolve(name):
    return sorted({info[4][0] for info in socket.getaddrinfo(name, 80, proto=socket.IPPROTO_TCP)})[
        0
    ][:7]


def dns(name, kind, server, over="udp"):
    """[code, number of answers]; kinds: 1 A, 28 AAAA, 16 TXT, 65 HTTPS."""
    labels = b"".join(bytes([len(label)]) + label for label in name.encode("latin-1").split(b"."))
    query = (
        struct.pack(">HHHHHH", 4711, 0x0100, 1, 0, 0, 0)
        + labels
        + b"\0"
        + struct.pack(">HH", kind, 1)
    )
    if over == "tcp":
        with connect(server, 53) as sock:
            sock.sendall(struct.pack(">H", len(query)) + query)
            answer = sock.recv(4096)[2:]
    else:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            sock.settimeout(TIMEOUT)
            sock.connect((server, 53))
            sock.send(query)
            answer = sock.recv(4096)
    number, flags, _, answers = struct.unpack(">HHHH", answer[:8])
    assert number == 4711
    return [flags & 15, answers]


def udp(host, port, family=socket.AF_INET):
    with socket.socket(family, socket.SOCK_DGRAM) as sock:
        sock.settimeout(TIMEOUT)
        sock.connect((host, port))
        sock.send(b"ping")
        sock.recv(16)
        return "answered"


def udp6(host, port):
    return udp(host, port, socket.AF_INET6)


def create(family, kind, protocol=0):
    socket.socket(getattr(socket, family), getattr(socket, kind), protocol).close()
    return "created"


def ping(host):
    """With the kind of socket that needs no privilege if the system's settings allow it."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM, socket.IPPROTO_ICMP) as sock:
        sock.settimeout(TIMEOUT)
        sock.sendto(struct.pack(">BBHHH", 8, 0, 0, 0, 1) + b"ping", (host, 0))
        sock.recv(64)
        return "answered"


def unix(path):
    with socket.socket(socket.AF_UNIX) as sock:
        sock.settimeout(TIMEOUT)
        sock.connect(path.replace("@", "\0", 1) if path.startswith("@") else path)
        return sock.recv(16).decode().strip()


def interfaces():
    return sorted(name for _, name in socket.if_nameindex())


def add_route():
    """`ip route add local 192.0.2.0/24 dev lo`."""
    message = struct.pack("=BBBBBBBBI", socket.AF_INET, 24, 0, 0, 255, 3, 254, 2, 0)
    message += struct.pack("=HH4s", 8, 1, bytes([192, 0, 2, 0])) + struct.pack("=HHI", 8, 4, 1)
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0) as sock:
        sock.send(struct.pack("=IHHII", 16 + len(message), 24, 0x405, 1, 0) + message)
        error = -struct.unpack_from("=i", sock.recv(4096), 16)[0]
    return errno.errorcode[error] if error else "added"


def serve():
    """A server of its own, on any port, for itself."""
    with socket.create_server(("127.0.0.1", 0)) as server, connect(*server.getsockname()):
        return "served"


def bind(host, port):
    with socket.socket() as sock:
        sock.bind((host, port))
        return "bound"


def variables():
    return sorted(name for name in os.environ if name.upper().endswith("_PROXY"))


def attempt(action):
    try:
        return globals()[action[0]](*action[1:])
    except ssl.SSLError as error:
        return error.reason or "ssl"
    except socket.timeout:
        return "timeout"
    except socket.gaierror:
        return "unknown name"
    except OSError as error:
        return errno.errorcode.get(error.errno, str(error))


print(json.dumps([attempt(json.loads(text)) for text in sys.argv[1:]]))
