# SPDX-License-Identifier: Apache-2.0
"""Attack suite C, the network: the only ways out of a sandbox are those to allowed names, whatever
a program tries.
"""

from __future__ import annotations

import pytest
from box import NetBox, make_settings
from little_internet import ECHO_PORT, LOCAL_PORT, METADATA, PRIVATE, PUBLIC, PUBLIC6

SETTINGS = make_settings(
    allowedDomains=[
        "good.test",
        "*.wild.test",
        "port.test:8443",
        "refused.test",
        "rebound.test",
        "metadata.test",
        "intranet.test",
        "six.test",
    ],
    deniedDomains=["deep.wild.test"],
)

ALERT = "TLSV1_ALERT_ACCESS_DENIED"
UNKNOWN, NO_DATA, ANSWER = [3, 0], [0, 0], [0, 1]

# action, its result without a sandbox, and its result inside
WITHOUT_PROXY = [
    # outside of the listeners nothing answers
    (["tcp", PUBLIC, 8080], "connected", "ECONNREFUSED"),
    (["echo", PUBLIC, ECHO_PORT], "hello", "ECONNREFUSED"),
    (["udp", PUBLIC, ECHO_PORT], "answered", "ECONNREFUSED"),
    (["tcp6", PUBLIC6, 80], "connected", "ENETUNREACH"),
    (["ping", PUBLIC], "answered", "EACCES"),
    (["create", "AF_INET", "SOCK_RAW", 1], "created", "EPERM"),
    (["create", "AF_INET6", "SOCK_RAW", 58], "created", "EPERM"),
    (["create", "AF_PACKET", "SOCK_RAW", 3], "created", "EAFNOSUPPORT"),
    (["add_route"], "added", "EPERM"),
    (["interfaces"], ["lo"], ["lo"]),
    # the host's loopback and sockets
    (["tcp", "127.0.0.1", LOCAL_PORT], "connected", "ECONNREFUSED"),
    (["tcp", "0.0.0.0", LOCAL_PORT], "connected", "ECONNREFUSED"),
    (["tcp6", "::ffff:127.0.0.1", LOCAL_PORT], "connected", "ECONNREFUSED"),
    (["http", "127.0.0.1", 80, "localhost"], "200", "403"),
    (["unix", "@ipybox-test"], "host", "ECONNREFUSED"),
    # addresses
    (["http", PUBLIC, 80, "good.test"], "200", "403"),
    (["tls", PUBLIC, 443, "good.test"], "tls", ALERT),
    (["http", PRIVATE, 80, "intranet.test"], "200", "403"),
    (["http", METADATA, 80, METADATA], "200", "403"),
    # names
    (["http", "good.test", 80, "good.test"], "200", "200"),
    (["http", "GOOD.test", 80, "Good.Test."], "200", "200"),
    (
        ["http", "good.test.", 80, "good.test"],
        "unknown name",
        "200",
    ),  # /etc/hosts does not know the dot
    (["http", "www.wild.test", 80, "www.wild.test"], "200", "200"),
    (["http", "intranet.test", 80, "intranet.test"], "200", "200"),
    (
        ["http", "six.test", 80, "six.test"],
        "unknown name",
        "200",
    ),  # reached by IPv6, and seen as IPv4 inside
    (["http", "evil.test", 80, "evil.test"], "200", "unknown name"),
    (["http", "lan.wild.test", 80, "lan.wild.test"], "200", "403"),
    (["http", "rebound.test", 80, "rebound.test"], "200", "403"),
    (["http", "metadata.test", 80, "metadata.test"], "200", "403"),
    (["http", "good.test", 80, "evil.test"], "200", "403"),
    (["http", "good.test", 80, "www.wild.test"], "200", "403"),
    (["http", "good.test", 80, f"{PUBLIC}"], "200", "403"),
    (["http", "good.test", 80, "good.test@evil.test"], "200", "400"),
    (["tls", "good.test", 443, "good.test"], "tls", "tls"),
    (["tls", "good.test", 443, "GOOD.TEST"], "tls", "tls"),
    (["tls", "good.test", 443, "evil.test"], "tls", ALERT),
    (["tls", "good.test", 443, "www.wild.test"], "tls", ALERT),
    (["tls", "good.test", 443, None], "tls", ALERT),
    (["tls", "good.test", 443, PUBLIC], "tls", ALERT),
    (["resolve", "good.test"], PUBLIC[:7], "198.18."),
    (["resolve", "evil.test"], PUBLIC[:7], "unknown name"),
    (["resolve", "deep.wild.test"], "unknown name", "unknown name"),
    # what is its own
    (["serve"], "served", "served"),
    (["bind", "127.0.0.1", 0], "bound", "bound"),
    (["bind", "127.0.0.1", 443], "bound", "EACCES"),
]

NAME_SERVER = [
    (["dns", "good.test", 1, PUBLIC], UNKNOWN, ANSWER),
    (["dns", "GOOD.Test", 1, PUBLIC, "tcp"], "ECONNREFUSED", ANSWER),
    (["dns", "good.test", 28, PUBLIC], UNKNOWN, NO_DATA),
    (["dns", "good.test", 16, PUBLIC], UNKNOWN, NO_DATA),
    (["dns", "good.test", 65, PUBLIC], UNKNOWN, NO_DATA),
    (["dns", "localhost", 1, PUBLIC], UNKNOWN, ANSWER),
    (["dns", "secret-1.evil.test", 1, PUBLIC], UNKNOWN, UNKNOWN),
    (["dns", "secret-2.evil.test", 16, PUBLIC], UNKNOWN, UNKNOWN),
    (["dns", "secret-3.evil.test", 1, PUBLIC, "tcp"], "ECONNREFUSED", UNKNOWN),
    (["dns", "good.test\0secret-4.evil.test", 1, PUBLIC], UNKNOWN, UNKNOWN),
    (["dns", "secret-5.good.test", 1, PUBLIC], UNKNOWN, UNKNOWN),
    (["dns", "secret-6.wild.test", 16, PUBLIC], UNKNOWN, NO_DATA),
]


def get(url: str, host: str | None = None) -> list:
    target = url.removeprefix("http://").partition("/")[0]
    return ["proxy", f"GET {url} HTTP/1.1\r\nHost: {host or target}\r\nConnection: close\r\n\r\n"]


BY_PROXY = [
    (get("http://good.test/"), "200"),
    (get("http://GOOD.TEST./"), "200"),
    (get("http://www.wild.test/"), "200"),
    (get("http://intranet.test/"), "200"),
    (get("http://six.test/"), "200"),
    (get("http://evil.test/"), "403"),
    (get("http://wild.test/"), "403"),
    (get("http://deep.wild.test/"), "403"),
    (get("http://notwild.test/"), "403"),
    (get("http://good.test.evil.test/"), "403"),
    (get("http://evil.test/good.test"), "403"),
    (get("http://good.test/", "evil.test"), "400"),
    (get("http://good.test/", "good.test@evil.test"), "400"),
    (get("http://good.test@evil.test/"), "400"),
    (get("http://evil.test#good.test/"), "400"),
    (get("http://good.test%00.evil.test/"), "400"),
    (get("http://good.test\0.evil.test/"), "400"),
    (get("http://good.test\t/"), "400"),
    (get("http://good.test../"), "400"),
    (get("http://\xef\xbd\x87ood.test/"), "400"),  # a wide g: IDN would make it good.test
    (get("http://refused.test/"), "502"),
    # loopback, in each spelling
    *(
        (get(f"http://{host}:{LOCAL_PORT}/"), status)
        for host, status in [
            ("127.0.0.1", "403"),
            ("localhost", "403"),
            ("rebound.test", "403"),
            ("[::1]", "403"),
            ("[::ffff:127.0.0.1]", "403"),
            ("[::ffff:7f00:1]", "403"),
            ("[64:ff9b::7f00:1]", "403"),
            ("0.0.0.0", "403"),
            ("127.1", "403"),
            ("0", "403"),
            ("2130706433", "403"),
            ("0x7f000001", "403"),
            ("0x7f.0.0.1", "403"),
            ("017700000001", "403"),
            ("0177.0.0.1", "403"),
            ("127.0.0.1.", "403"),
        ]
    ),
    (get(f"http://{METADATA}/"), "403"),
    (get("http://metadata.test/"), "403"),
    (get(f"http://{PUBLIC}/"), "403"),
    (get(f"http://{PRIVATE}/"), "403"),
    (get("http://lan.wild.test/"), "403"),
    (get("https://good.test/"), "400"),
    (get("ftp://good.test/"), "400"),
    # a request within a request
    (
        [
            "proxy",
            "POST http://good.test/ HTTP/1.1\r\n"
            "Host: good.test\r\n"
            "Content-Length: 0\r\n"
            "Transfer-Encoding: chunked\r\n"
            "\r\n"
            "0\r\n"
            "\r\n",
        ],
        "400",
    ),
    (
        [
            "proxy",
            "POST http://good.test/ HTTP/1.1\r\n"
            "Host: good.test\r\n"
            "Content-Length: 0\r\n"
            "Content-Length: 5\r\n"
            "\r\n"
            "hello",
        ],
        "400",
    ),
    (
        ["proxy", "GET http://good.test/ HTTP/1.1\r\nHost: good.test\r\nHost: evil.test\r\n\r\n"],
        "400",
    ),
    (
        ["proxy", "GET http://good.test/ HTTP/1.1\r\nHost: good.test\nHost: evil.test\r\n\r\n"],
        "400",
    ),
    (
        [
            "answers",
            "GET http://good.test/ HTTP/1.1\r\n"
            "Host: good.test\r\n"
            "\r\n"
            "GET http://evil.test/ HTTP/1.1\r\n"
            "Host: evil.test\r\n"
            "\r\n",
        ],
        1,
    ),
    # tunnels
    (["connect_tls", "good.test:443", "good.test"], "tls"),
    (["connect_tls", "Good.Test.:443", "good.test"], "tls"),
    (["connect_tls", "port.test:8443", "port.test"], "tls"),
    (["connect_http", "good.test:80", "good.test"], "200"),
    (["connect_http", "good.test:8080", "good.test"], "200"),
    (["connect_tunnel", "port.test:443"], "403"),
    (["connect_tunnel", "evil.test:443"], "403"),
    (["connect_tunnel", "evil.test:22"], "403"),
    (["connect_tunnel", f"{PUBLIC}:443"], "403"),
    (["connect_tunnel", f"localhost:{LOCAL_PORT}"], "403"),
    (["connect_tunnel", f"rebound.test:{LOCAL_PORT}"], "403"),
    (["connect_tunnel", "good.test"], "400"),
    (["connect_tunnel", "good.test:0"], "400"),
    (["connect_tunnel", "good.test:65536"], "400"),
    (["connect_tls", "good.test:443", "evil.test"], ALERT),
    (["connect_tls", "good.test:443", "www.wild.test"], ALERT),
    (["connect_tls", "good.test:443", None], ALERT),
    (["connect_http", "good.test:80", "evil.test"], "403"),
    (
        ["connect_raw", "good.test:443", "GET / HTTP/1.1\r\nHost: good.test\r\n\r\n"],
        "\x15\3\3\0\2\2\x31",
    ),
    # SOCKS
    (["socks", "good.test", 80], 0),
    (["socks", "evil.test", 80], 2),
    (["socks", "refused.test", 80], 5),
    (["socks", "rebound.test", LOCAL_PORT], 2),
    (["socks", "127.0.0.1", LOCAL_PORT], 2),
    (["socks", "127.0.0.1", LOCAL_PORT, 1], 2),
    (["socks", "::1", LOCAL_PORT, 4], 2),
    (["socks", "::ffff:127.0.0.1", LOCAL_PORT, 4], 2),
    (["socks", PUBLIC, 80, 1], 2),
    (["socks", "good.test\0.evil.test", 80], 2),
    (["socks", "good.test", 80, 3, 2], 7),  # BIND
    (["socks", "good.test", 80, 3, 3], 7),  # UDP ASSOCIATE
    (["flood", 128], ["503", "200"]),
]


def compare(net: NetBox, rows: list[tuple], settings: dict | None, **options) -> None:
    found = net.attempts([row[0] for row in rows], settings, **options)
    wrong = [
        (row[0], f"expected {row[-1]!r}", result)
        for row, result in zip(rows, found, strict=True)
        if result != row[-1]
    ]
    assert not wrong, "\n".join(map(str, wrong))


@pytest.mark.needs_root
def test_without_a_sandbox_everything_is_reached(net: NetBox) -> None:
    """The positive control of the tests below."""
    compare(
        net,
        [(action, outside) for action, outside, _ in WITHOUT_PROXY + NAME_SERVER],
        None,
        sandbox=False,
    )
    assert b"secret-1" in net.internet.asked


def test_programs_that_know_nothing_of_proxies(net: NetBox, user: str) -> None:
    compare(net, WITHOUT_PROXY, SETTINGS, user=user)


def test_programs_that_use_the_proxies(net: NetBox, user: str) -> None:
    compare(net, BY_PROXY, SETTINGS, user=user)


def test_no_question_for_a_name_leaves(net: NetBox, user: str) -> None:
    before = net.internet.asked
    compare(net, NAME_SERVER, SETTINGS, user=user)
    assert net.internet.asked == before


def test_without_an_allowed_domain_there_is_no_network(net: NetBox, user: str) -> None:
    net.place.environ["https_proxy"] = f"http://user:password@127.0.0.1:{LOCAL_PORT}"
    rows = [
        (["variables"], []),
        (["tcp", "127.0.0.1", 3128], "ECONNREFUSED"),
        (["tcp", "127.0.0.1", 1080], "ECONNREFUSED"),
        (["tcp", "127.0.0.1", LOCAL_PORT], "ECONNREFUSED"),
        (["tcp", PUBLIC, 80], "ENETUNREACH"),
        (["udp", PUBLIC, 53], "ENETUNREACH"),
        (["tcp6", PUBLIC6, 80], "ENETUNREACH"),
        (["resolve", "good.test"], "unknown name"),
        (["unix", "@ipybox-test"], "ECONNREFUSED"),
        (["serve"], "served"),
    ]
    compare(net, rows, make_settings(deniedDomains=["evil.test"]), user=user)
    assert net.attempts([["variables"]], sandbox=False) == [["https_proxy"]]


RULES = [
    (
        {"allowedDomains": ["good.test"], "deniedDomains": ["*"]},
        [(get("http://good.test/"), "403")],
    ),
    (
        {"allowedDomains": ["good.test"], "deniedDomains": ["good.test:8080"]},
        [(get("http://good.test/"), "200"), (get("http://good.test:8080/"), "403")],
    ),
    (
        {"allowedDomains": ["good.test"], "deniedDomains": ["*:8080"]},
        [(get("http://good.test/"), "200"), (get("http://good.test:8080/"), "403")],
    ),
    (
        {"allowedDomains": ["good.test:8080"]},
        [
            (get("http://good.test/"), "403"),
            (get("http://good.test:8080/"), "200"),
            (["http", "good.test", 80, "good.test"], "403"),
        ],
    ),
    (
        {"allowedDomains": ["good.test", "*.wild.test"], "strictAllowlist": True},
        [(get("http://evil.test/"), "403"), (get("http://good.test/"), "200")],
    ),
    # the addresses of names
    (
        {"allowedDomains": ["good.test"], "deniedResolvedAddresses": ["203.0.113.0/24"]},
        [(get("http://good.test/"), "403")],
    ),
    (
        {"allowedDomains": ["good.test"], "deniedResolvedAddresses": ["10.0.0.0/8"]},
        [(get("http://good.test/"), "200")],
    ),
    (
        {"allowedDomains": ["intranet.test"], "deniedResolvedAddresses": ["10.0.0.0/8"]},
        [(get("http://intranet.test/"), "403")],
    ),
    (
        {"allowedDomains": ["good.test"], "deniedDomains": [PUBLIC]},
        [(get("http://good.test/"), "403")],
    ),
    (
        {"allowedDomains": ["good.test"], "deniedDomains": [f"{PUBLIC}:8080"]},
        [(get("http://good.test/"), "200"), (get("http://good.test:8080/"), "403")],
    ),
    # addresses that are allowed by the configuration
    (
        {"allowedDomains": [PUBLIC]},
        [
            (get(f"http://{PUBLIC}/"), "200"),
            (get("http://good.test/"), "403"),
            (["http", PUBLIC, 80, PUBLIC], "200"),
        ],
    ),
    (
        {"allowedDomains": [f"[{PUBLIC6}]:80"]},
        [(get(f"http://[{PUBLIC6}]/"), "200"), (get("http://six.test/"), "403")],
    ),
    (
        {"allowedDomains": ["rebound.test", f"127.0.0.1:{LOCAL_PORT}"]},
        [
            (get(f"http://rebound.test:{LOCAL_PORT}/"), "200"),
            (get("http://rebound.test/"), "403"),
            (get(f"http://localhost:{LOCAL_PORT}/"), "403"),
        ],
    ),
    (
        {"allowedDomains": ["localhost"]},
        [
            (get(f"http://localhost:{LOCAL_PORT}/"), "200"),
            (get(f"http://127.0.0.1:{LOCAL_PORT}/"), "403"),
        ],
    ),
    ({"allowedDomains": [METADATA]}, [(get(f"http://{METADATA}/"), "200")]),
    # the sandbox's own loopback
    ({"allowedDomains": ["good.test"], "allowLocalBinding": False}, [(["serve"], "served")]),
    (
        {"allowedDomains": ["good.test"], "allowLocalBinding": True},
        [(["serve"], "served"), (["tcp", "127.0.0.1", LOCAL_PORT], "ECONNREFUSED")],
    ),
    # the application's own proxies, which filter for themselves
    (
        {"allowedDomains": ["good.test"], "httpProxyPort": LOCAL_PORT},
        [
            (get("http://evil.test/"), "200"),
            (["http", "good.test", 80, "good.test"], "403"),
            (["socks", "evil.test", 80], 2),
        ],
    ),
    (
        {"allowedDomains": ["good.test"], "socksProxyPort": ECHO_PORT},
        [(["echo", "127.0.0.1", 1080], "hello"), (get("http://evil.test/"), "403")],
    ),
]


@pytest.mark.parametrize(("keys", "rows"), RULES)
def test_rules(net: NetBox, keys: dict, rows: list[tuple]) -> None:
    compare(net, rows, make_settings(**keys))


def test_a_name_that_moves_is_checked_each_time(net: NetBox) -> None:
    """DNS rebinding: the owner of the name changes its address while the sandbox runs."""
    hosts = net.internet.directory / "hosts"
    before = hosts.read_text()
    settings = make_settings(
        allowedDomains=["good.test"], allowWrite=[".", str(net.internet.directory)]
    )
    moved = before.replace(f"{PUBLIC} good.test", "127.0.0.1 good.test")
    both = before.replace(f"{PUBLIC} good.test", f"127.0.0.1 good.test\n{PUBLIC} good.test")
    rows = [
        (get("http://good.test/"), "200"),
        (["write", str(hosts), moved], "written"),
        (get("http://good.test/"), "403"),
        (["http", "good.test", 80, "good.test"], "403"),
        (["write", str(hosts), both], "written"),
        (get("http://good.test/"), "200"),
        (get(f"http://good.test:{LOCAL_PORT}/"), "502"),
    ]
    try:
        compare(net, rows, settings)
    finally:
        hosts.write_text(before)
