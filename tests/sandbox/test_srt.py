# SPDX-License-Identifier: Apache-2.0
"""The documentation of srt (npm `@anthropic-ai/sandbox-runtime` 0.0.78: README, configuration
reference) applies to `ipybox sandbox`, key by key.

Files are in test_settings.py, most of the network in test_network.py and test_network_command.py.
Here is the rest: each key's types, which keys are refused or have no effect, the classes of
addresses, defaults, files of settings, and --control-fd.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest
from box import MOUNT, Box, NetBox, make_settings
from little_internet import LOCAL_PORT, METADATA, PRIVATE, PUBLIC

MINIMAL = {
    "network": {"allowedDomains": [], "deniedDomains": []},
    "filesystem": {"denyRead": [], "allowWrite": [], "denyWrite": []},
}

# The README's complete example, and its recipes.
EXAMPLES = [
    {
        "network": {
            "allowedDomains": [
                "github.com",
                "*.github.com",
                "lfs.github.com",
                "api.github.com",
                "npmjs.org",
                "*.npmjs.org",
            ],
            "deniedDomains": ["malicious.com"],
            "allowUnixSockets": ["/var/run/docker.sock"],
            "allowLocalBinding": False,
        },
        "filesystem": {
            "denyRead": ["~/.ssh"],
            "allowRead": [],
            "allowWrite": [".", "src/", "test/", "/tmp"],
            "denyWrite": [".env", "config/production.json"],
        },
        "ignoreViolations": {
            "*": ["/usr/bin", "/System"],
            "git push": ["/usr/bin/nc"],
            "npm": ["/private/tmp"],
        },
        "enableWeakerNestedSandbox": False,
        "enableWeakerNetworkIsolation": False,
        "allowAppleEvents": False,
    },
    make_settings(
        denyRead=["~/.ssh"], allowWrite=[".", "src/", "test/"], denyWrite=[".env", "secrets/"]
    ),
    make_settings(denyRead=["/home"], allowRead=["."], allowWrite=["."]),
    make_settings(denyWrite=["~/sensitive-folder"]),
    make_settings() | {"mandatoryDenySearchDepth": 5},
]

# Key, accepted values, refused values. A path of several keys has dots.
TYPES: list[tuple[str, list, list]] = [
    (
        "network.allowedDomains",
        [
            [
                "a.test",
                "*.a.test",
                "a.test:443",
                "*.a.test:8443",
                "[::1]",
                "[2001:db8::1]:443",
                "127.0.0.1:3000",
                "localhost",
            ]
        ],
        [
            "a.test",
            [1],
            ["2001:db8::1:443"],
            ["*"],
            ["*.test:"],
            ["http://a.test"],
            ["a.test/x"],
            ["a test"],
            ["a.test:0"],
            ["a.test:65536"],
            [""],
            [None],
        ],
    ),
    (
        "network.deniedDomains",
        [["*", "*:22", "a.test:22", "1.2.3.4"]],
        [["2001:db8::1:443"], {}, ["a.test:x"]],
    ),
    ("network.deniedDomainReasons", [{"a.test": "because"}], [[], {"a.test": 1}]),
    (
        "network.deniedResolvedAddresses",
        [["10.0.0.0/8", "fc00::/7", "192.0.2.1", "2001:db8::1"]],
        [["a.test"], ["10.0.0.0/33"], ["[::1]"], ["10.0.0.0/8:443"], "10.0.0.0/8"],
    ),
    ("network.strictAllowlist", [True, False], ["yes", 1]),
    ("network.allowUnixSockets", [["/var/run/docker.sock"]], ["/x", [1]]),
    ("network.allowAllUnixSockets", [True, False], [[], "true"]),
    ("network.allowLocalBinding", [True, False], [0]),
    ("network.httpProxyPort", [1, 65535], [0, 65536, "8080", 1.5]),
    ("network.socksProxyPort", [1, 65535], [0, 65536, None]),
    (
        "filesystem.denyRead",
        [["~/.ssh", "**/build/**", "file?.txt", "[a-c]"]],
        ["~", [""], ["/data/*/"], [1]],
    ),
    ("filesystem.allowRead", [["."]], [[False]]),
    ("filesystem.allowWrite", [["src/**", "src/"]], [{}]),
    ("filesystem.denyWrite", [["config/production.json"]], [["/data/*/"]]),
    ("filesystem.allowGitConfig", [True], ["no"]),
    ("filesystem.disabled", [False], [True]),
    ("ignoreViolations", [{"*": ["/usr/bin"], "git push": []}], [[], {"*": "/usr/bin"}]),
    ("enableWeakerNestedSandbox", [False, True], ["false"]),
    ("enableWeakerNetworkIsolation", [False, True], [1]),
    ("allowAppleEvents", [False, True], [1]),
    ("allowPty", [True, False], ["x"]),
    ("mandatoryDenySearchDepth", [1, 3, 10], [0, 11, "3"]),
    ("javaAgentJarPath", ["/opt/agent.jar"], [1]),
    ("windows", [{"proxyPortRange": [60080, 60089]}], ["x"]),
    # refused by name: without them the sandbox would allow something else than the file says
    ("network.tlsTerminate", [], [{}, {"excludeDomains": ["a.test"]}]),
    ("network.parentProxy", [], [{}, {"http": "http://proxy.test:3128"}]),
    ("network.mitmProxy", [], [{"socketPath": "/x", "domains": []}]),
    ("network.filterRequest", [], [{}, "x"]),
    ("credentials", [], [{}, {"files": []}]),
    # misspelt
    ("network.allowedDomain", [], [[]]),
    ("filesystem.denyread", [], [[]]),
    ("denyRead", [], [[]]),
]

WITHOUT_EFFECT = [
    "network.allowLocalBinding",
    "enableWeakerNetworkIsolation",
    "allowAppleEvents",
    "windows",
    "javaAgentJarPath",
]


def with_key(path: str, value: object) -> dict:
    settings = json.loads(json.dumps(MINIMAL))
    *parents, name = path.split(".")
    place = settings
    for parent in parents:
        place = place[parent]
    place[name] = value
    return settings


def explain(box: Box, settings: dict) -> subprocess.CompletedProcess[str]:
    return box(
        [
            box.program("root"),
            "sandbox",
            "--explain",
            "--json",
            "--settings",
            box.write_settings(settings),
        ],
        sandbox=False,
    )


def with_own_tmp(box: Box) -> list[str]:
    """What to put before a command so that /tmp is on the file system of the test's directories:
    the machine's own may not be mountable with an id map.
    """
    tmp = box.place.root / "own-tmp"
    tmp.mkdir()
    tmp.chmod(0o1777)
    return [
        "unshare",
        "--mount",
        "--propagation",
        "private",
        "sh",
        "-c",
        MOUNT,
        "sh",
        str(tmp),
        "/tmp",
        "--",
    ]


@pytest.mark.needs_root
@pytest.mark.parametrize("example", range(len(EXAMPLES)))
def test_examples_of_the_documentation(box: Box, user: str, example: int) -> None:
    command = box.command(["sh", "-c", "echo x > made && cat made"], EXAMPLES[example], user=user)
    done = box([*with_own_tmp(box), *command], sandbox=False)
    assert (done.stdout, done.returncode) == ("x\n", 0), done.stderr


@pytest.mark.parametrize(("key", "taken", "refused"), TYPES)
def test_types(box: Box, key: str, taken: list, refused: list) -> None:
    """An error has the key's path, and nothing runs."""
    for value in taken:
        done = explain(box, with_key(key, value))
        assert done.returncode == 0, (value, done.stderr)
        assert (key in done.stdout) or key not in WITHOUT_EFFECT, value
    for value in refused:
        done = box(["touch", "ran"], with_key(key, value) | {})
        assert done.returncode == 2 and key in done.stderr, (value, done.stderr)
    assert not (box.place.workspace / "ran").exists()


def test_files_of_settings(box: Box, user: str) -> None:
    """~/.srt-settings.json is the default.

    If the file exists and is wrong, that is an error, and so is a named file that does not exist.
    """
    box.prepare(user)
    default = box.place.home / ".srt-settings.json"
    program = [*box.become(user), box.program(user), "sandbox"]
    write = ["sh", "-c", "echo x > made"]
    assert box([*program, "--", *write], sandbox=False).returncode != 0
    default.write_text(json.dumps(make_settings()))
    default.chmod(0o644)
    assert box([*program, "--", *write], sandbox=False).returncode == 0
    for content in (
        "",
        " ",
        "{",
        "[]",
        "null",
        '{"network": {}}',
        json.dumps(make_settings() | {"more": 1}),
    ):
        default.write_text(content)
        done = box([*program, "--", "touch", "ran"], sandbox=False)
        assert done.returncode == 2 and ".srt-settings.json" in done.stderr, (content, done.stderr)
    done = box([*program, "--settings", "nowhere.json", "--", "touch", "ran"], sandbox=False)
    assert done.returncode != 0 and "nowhere.json" in done.stderr
    assert not (box.place.workspace / "ran").exists()


def test_defaults(box: Box, user: str) -> None:
    """No network, no writes except to what is its own, everything can be read; standard streams can
    be written.
    """
    (box.place.home / "file").write_text("text")
    script = """cat ~/file; echo out; echo error >&2
        for place in /tmp/claude/x /tmp/x /dev/null ~/x ./x /etc/x; do
            mkdir -p /tmp/claude; (echo x > $place) 2>/dev/null && echo $place
        done"""
    done = box(["sh", "-c", script], MINIMAL, user=user)
    assert (
        done.stdout.split() == ["text" + "out", "/tmp/claude/x", "/tmp/x", "/dev/null"]
        and done.stderr == "error\n"
    )


def test_directories_of_npm_and_claude(box: Box, user: str) -> None:
    """They can be written without being listed, unless a denied read covers them.

    What is written there is not kept, unlike srt's.
    """
    for name in (".npm/_logs", ".claude/debug"):
        (box.place.home / name).mkdir(parents=True)
    box.prepare(user)
    script = (
        "for d in .npm/_logs .claude/debug; do (echo x > ~/$d/x) 2>/dev/null && "
        "cat ~/$d/x; done; true"
    )
    assert box(["sh", "-c", script], MINIMAL, user=user).stdout == "x\nx\n"
    assert not list(box.place.home.rglob("x"))
    assert box(["sh", "-c", script], make_settings(denyRead=["~"]), user=user).stdout == ""
    box(["sh", "-c", script], make_settings(allowWrite=["~/.npm/_logs"]), user=user)
    assert [path.parent.name for path in box.place.home.rglob("x")] == ["_logs"]


def test_writes_through_links(box: Box, user: str) -> None:
    """A write is judged by its target.

    An existing hard link is the file itself; none can be created.
    """
    for name in ("out", "ws/in"):
        (box.place.root / name).mkdir()
        (box.place.root / name).chmod(0o777)
    (box.place.root / "out/file").write_text("text")
    (box.place.root / "out/file").chmod(0o666)
    (box.place.workspace / "leads-out").symlink_to(box.place.root / "out")
    (box.place.workspace / "leads-in").symlink_to("in")
    os.link(box.place.root / "out/file", box.place.workspace / "was-there")
    script = (
        "echo x > leads-out/file && echo 1; echo x > leads-in/x && echo 2; "
        "echo x > was-there && echo 3; ln ../out/file made && echo 4"
    )
    done = box(["sh", "-c", script], make_settings(allowWrite=["in", "was-there"]), user=user)
    assert done.stdout.split() == ["2", "3"], done.stderr


def test_a_glob_that_denies_reading_directories(box: Box, user: str) -> None:
    """`**/build/**` is an empty directory, whose output is lost. A denied link hides its target."""
    for name in ("build/a", "deep/build/b", "real/c"):
        (box.place.workspace / name).parent.mkdir(parents=True, exist_ok=True)
        (box.place.workspace / name).write_text("text")
    (box.place.workspace / "alias").symlink_to("real")
    script = (
        "ls -A build deep/build; cat real/c alias/c 2>/dev/null; "
        "(echo new > build/new && cat build/new) 2>/dev/null; true"
    )
    done = box(["sh", "-c", script], make_settings(denyRead=["**/build/**", "alias"]), user=user)
    assert (
        "text" not in done.stdout
        and " a" not in done.stdout.replace("\n", " ")
        and " b " not in done.stdout.replace("\n", " ")
    )
    assert (
        not (box.place.workspace / "build/new").exists()
        and (box.place.workspace / "build/a").read_text() == "text"
    )


# The network


def status(host: str, port: int = 80) -> list:
    return [
        "proxy",
        f"GET http://{host}:{port}/ HTTP/1.1\r\nHost: {host}:{port}\r\nConnection: close\r\n\r\n",
    ]


ADDRESSES = [
    "127.0.0.1",
    "127.9.9.9",
    "0.0.0.0",
    "0.1.2.3",
    "169.254.1.1",
    METADATA,
    "224.0.0.1",
    "255.255.255.255",
    "100.100.100.200",
    "168.63.129.16",
    "192.0.0.192",
    "[::1]",
    "[::]",
    "[fe80::1]",
    "[ff02::1]",
    "[fd00:ec2::254]",
    "[fd20:ce::254]",
    "[fd00:c1::a9fe:a9fe]",
    "[fd00:42::42]",
    "[::ffff:127.0.0.1]",
    "[::127.0.0.1]",
    "[::ffff:0:127.0.0.1]",
    "[64:ff9b::127.0.0.1]",
    "[2002:7f00:1::]",
]


def test_classes_of_addresses(net: NetBox) -> None:
    """No allowed name leads to one of them, whatever its name server answers."""
    hosts = net.internet.directory / "hosts"
    before = hosts.read_text()
    names = {address: f"n{index}.classes.test" for index, address in enumerate(ADDRESSES)}
    own = "127.0.0.1"
    try:
        hosts.write_text(
            before
            + "".join(f"{address.strip('[]')} {name}\n" for address, name in names.items())
            + f"{PUBLIC} n.classes.test\n"
        )
        actions = [status(name, LOCAL_PORT) for name in names.values()]
        settings = make_settings(allowedDomains=["*.classes.test", *names.values()])
        results = dict(zip(names, net.attempts(actions, settings), strict=True))
        assert set(results.values()) == {"403"}, results
        # The same name, but the address itself is allowed on that port.
        settings = make_settings(
            allowedDomains=[names[own], f"{own}:{LOCAL_PORT}", "n.classes.test"]
        )
        rows = [status(names[own], LOCAL_PORT), status(names[own], 80), status("n.classes.test")]
        assert net.attempts(rows, settings) == ["200", "403", "200"]
        # A denied literal takes precedence over that.
        settings = make_settings(allowedDomains=[names[own], own], deniedDomains=[own])
        assert net.attempts(
            [status(names[own], LOCAL_PORT), status(own, LOCAL_PORT)], settings
        ) == ["403", "403"]
    finally:
        hosts.write_text(before)


RULES = [
    ({"allowedDomains": ["*.wild.test"]}, {"www.wild.test": "200", "wild.test": "403"}),
    ({"allowedDomains": ["good.test:80"]}, {"good.test": "200"}),
    ({"allowedDomains": ["good.test:443"]}, {"good.test": "403"}),
    ({"allowedDomains": ["GOOD.TEST"]}, {"good.test": "200"}),
    ({"allowedDomains": ["good.test"], "deniedDomains": ["*:80"]}, {"good.test": "403"}),
    ({"allowedDomains": ["good.test"], "deniedDomains": ["*:22"]}, {"good.test": "200"}),
    (
        {"allowedDomains": ["*.wild.test"], "deniedDomains": ["*.wild.test"]},
        {"www.wild.test": "403"},
    ),
    ({"allowedDomains": ["intranet.test"]}, {"intranet.test": "200"}),
    (
        {"allowedDomains": ["intranet.test"], "deniedResolvedAddresses": [PRIVATE]},
        {"intranet.test": "403"},
    ),
    (
        {"allowedDomains": ["intranet.test"], "deniedResolvedAddresses": ["::/0"]},
        {"intranet.test": "200"},
    ),
]


@pytest.mark.parametrize(("keys", "expected"), RULES)
def test_rules(net: NetBox, keys: dict, expected: dict) -> None:
    results = net.attempts([status(host) for host in expected], make_settings(**keys))
    assert results == list(expected.values())


# --control-fd


def control(
    box: Box, script: str, inside: list[str], flags: tuple[str, ...] = ("--control-fd", "3")
) -> subprocess.CompletedProcess[str]:
    """@script runs in a shell, in which "$@" is the command line of the sandbox."""
    line = box.command(inside, make_settings(), flags=flags)
    return box(["bash", "-c", script, "bash", *line], sandbox=False)


def test_the_command_does_not_get_the_descriptor(box: Box) -> None:
    done = control(
        box, '"$@" 3< <(exec sleep 2)', ["sh", "-c", "readlink /proc/self/fd/3 || echo none"]
    )
    assert done.stdout == "none\n", done.stdout


def test_the_end_of_the_updates_is_no_end(box: Box) -> None:
    """The sandbox does not wait for other processes that could still write."""
    assert control(box, '"$@" 3< <(:)', ["sh", "-c", "sleep 0.2; exit 5"]).returncode == 5
    fifo = box.place.workspace / "fifo"
    os.mkfifo(fifo)
    fd = os.open(fifo, os.O_RDWR)
    assert control(box, '"$@" 3<fifo', ["sh", "-c", "exit 6"]).returncode == 6
    os.close(fd)
    fifo.unlink()


@pytest.mark.parametrize("fd", ["0", "1", "2", "-1", "x", "99"])
def test_descriptors_that_are_none(box: Box, fd: str) -> None:
    done = control(box, '"$@" 3</dev/null', ["touch", "ran"], ("--control-fd", fd))
    assert done.returncode == 2 and not Path(box.place.workspace / "ran").exists()
