# SPDX-License-Identifier: Apache-2.0
"""Runs commands in sandboxes; see conftest.py."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import harness
from little_internet import LittleInternet

# The users that run `ipybox sandbox`: root; an ordinary user; and that user as the only one of a
# user namespace, as in many containers.
USERS = ["root", "user", "userns"]
# An ordinary user cannot become another: "root" and "user" are the same then, and tests do not run
# as both.
IS_ROOT = os.geteuid() == 0
if not IS_ROOT:
    USERS.remove("root")

# For an ordinary user: an id that owns nothing.
ORDINARY_ID = 61234

PROBES = Path(__file__).parent / "probes"

# Other users may not be able to enter the checkout, .venv or the directory of its Python. They are
# mounted where every user can go, in a mount namespace of the command's own.
MOUNT = 'while [ "$1" != -- ]; do mount --bind "$1" "$2" && shift 2 || exit; done; shift; exec "$@"'

NETWORK = (
    "allowedDomains",
    "deniedDomains",
    "deniedDomainReasons",
    "deniedResolvedAddresses",
    "strictAllowlist",
    "allowLocalBinding",
    "allowUnixSockets",
    "allowAllUnixSockets",
    "httpProxyPort",
    "socksProxyPort",
)
FILES = {"denyRead": [], "allowWrite": ["."], "denyWrite": []}


def make_settings(**keys) -> dict:
    """Builds srt's configuration from its keys, without the objects that contain them.

    By default the workspace is writable.
    """
    settings: dict = {
        "network": {"allowedDomains": [], "deniedDomains": []},
        "filesystem": dict(FILES),
    }
    for key, value in keys.items():
        if key in NETWORK:
            settings["network"][key] = value
        elif key in FILES or key in ("allowRead", "allowGitConfig", "allowNames"):
            settings["filesystem"][key] = value
        else:
            settings[key] = value
    return settings


class Box:
    def __init__(self, place: harness.Place, ordinary_id: int = ORDINARY_ID) -> None:
        self.place = place
        self.ordinary_id = ordinary_id
        self.binary = harness.existing(
            Path(os.environ.get("IPYBOX_BIN", harness.ROOT / "build/ipybox")).resolve()
        )
        self.source = place.root / "src"
        self.venv = place.root / "venv"
        self.base = place.root / "base"
        self.n_settings = 0

    def prepare(self, user: str) -> None:
        """The test's directories belong to the user that runs the commands."""
        if not IS_ROOT:
            return
        for path in (self.source, self.venv, self.base):
            path.mkdir(exist_ok=True)
        if user != "root":
            for path in [self.place.root, *self.place.root.rglob("*")]:
                os.chown(path, self.ordinary_id, self.ordinary_id, follow_symlinks=False)

    def program(self, user: str) -> str:
        """The path of ipybox for @user."""
        if user == "root" or not IS_ROOT:
            return str(self.binary)
        return str(self.source / self.binary.relative_to(harness.ROOT))

    def python(self) -> list[str]:
        """The command of a Python with the packages of .venv; needs with_python."""
        if not IS_ROOT:
            return [str(harness.ROOT / ".venv/bin/python")]
        name = os.path.basename(os.path.realpath(harness.ROOT / ".venv/bin/python"))
        (packages,) = (harness.ROOT / ".venv/lib").glob("python3*/site-packages")
        path = self.venv / packages.relative_to(harness.ROOT / ".venv")
        return [
            "env",
            f"PYTHONPATH={path}",
            f"LD_LIBRARY_PATH={self.base}/lib",
            str(self.base / "bin" / name),
        ]

    def become(self, user: str, with_python: bool = False) -> list[str]:
        """What to put before a command so that @user runs it."""
        if not IS_ROOT:
            return ["unshare", "--user", "--map-root-user"] if user == "userns" else []
        if user == "root" and not with_python:
            return []
        self.prepare(user)
        mounts = [harness.ROOT, self.source]
        if with_python:
            base = Path(os.path.realpath(harness.ROOT / ".venv/bin/python")).parents[1]
            mounts += [os.path.realpath(harness.ROOT / ".venv"), self.venv, base, self.base]
        prefix = [
            "unshare",
            "--mount",
            "--propagation",
            "private",
            "sh",
            "-c",
            MOUNT,
            "sh",
            *map(str, mounts),
            "--",
        ]
        if user != "root":
            prefix += [
                "setpriv",
                f"--reuid={self.ordinary_id}",
                f"--regid={self.ordinary_id}",
                "--clear-groups",
            ]
        return prefix + (["unshare", "--user", "--map-root-user"] if user == "userns" else [])

    def write_settings(self, settings: dict) -> str:
        self.n_settings += 1
        path = self.place.home / f"sandbox-{self.n_settings}.json"
        path.write_text(json.dumps(settings))
        path.chmod(0o644)
        return str(path)

    def command(
        self,
        command: list[str],
        settings: dict | None = None,
        *,
        user: str = "root",
        flags: tuple[str, ...] = (),
        with_python: bool = False,
    ) -> list[str]:
        """The command line that runs @command in a sandbox; settings None: make_settings()."""
        path = self.write_settings(make_settings() if settings is None else settings)
        return [
            *self.become(user, with_python),
            self.program(user),
            "sandbox",
            "--settings",
            path,
            *flags,
            "--",
            *command,
        ]

    def __call__(
        self,
        command: list[str],
        settings: dict | None = None,
        *,
        user: str = "root",
        sandbox: bool = True,
        flags: tuple[str, ...] = (),
        with_python: bool = False,
        timeout: float = 120,
        **options,
    ) -> subprocess.CompletedProcess[str]:
        """Runs @command to its end.

        With @sandbox False: without a sandbox, as the same user, in the same place.
        """
        if sandbox:
            line = self.command(command, settings, user=user, flags=flags, with_python=with_python)
        else:
            line = [*self.become(user, with_python), *command]
        return self.run(line, timeout=timeout, **options)

    def run(self, line: list[str], timeout: float, **options) -> subprocess.CompletedProcess[str]:
        return harness.run(line, self.place, timeout=timeout, **options)

    def probe(
        self, name: str, settings: dict | None = None, *args: str, user: str = "root", **options
    ) -> dict:
        """Runs probes/<name>.py with the system's Python, which prints a JSON object."""
        script = (PROBES / f"{name}.py").read_text()
        done = self(["/usr/bin/python3", "-I", "-c", script, *args], settings, user=user, **options)
        assert done.returncode == 0, f"{done.returncode}\n{done.stdout}\n{done.stderr}"
        return json.loads(done.stdout)


class NetBox(Box):
    """Runs commands in a network that belongs to the tests, with servers, names and addresses."""

    def __init__(self, place: harness.Place, internet: LittleInternet) -> None:
        super().__init__(place)
        self.internet = internet
        ca = place.workspace / "ca.pem"
        ca.write_bytes(internet.ca.read_bytes())
        for name in (
            "CURL_CA_BUNDLE",
            "SSL_CERT_FILE",
            "GIT_SSL_CAINFO",
            "NODE_EXTRA_CA_CERTS",
            "PIP_CERT",
        ):
            place.environ[name] = str(ca)

    def run(self, line: list[str], timeout: float, **options) -> subprocess.CompletedProcess[str]:
        return self.internet.run(
            line, self.place.workspace, self.place.environ, timeout=timeout, **options
        )

    def attempts(self, actions: list[list], settings: dict | None = None, **options) -> list:
        """The result of each action of probes/network.py."""
        return self.probe("network", settings, *map(json.dumps, actions), **options)


@contextmanager
def listening(box: Box, *command: str) -> Iterator[int]:
    """Starts a verb that serves on loopback, and returns its port."""
    process = subprocess.Popen(
        [str(box.binary), *command, "--port", "0"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=box.place.workspace,
        env=box.place.environ,
        text=True,
    )
    with process:
        try:
            yield json.loads(process.stdout.readline())["port"]
        finally:
            process.stdin.close()
