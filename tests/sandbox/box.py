# SPDX-License-Identifier: Apache-2.0
"""Runs commands in sandboxes; see conftest.py."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import harness

# Who runs `ipybox sandbox`: root; somebody who is nobody special; and that one as the only user of a user namespace, as in many
# containers.
USERS = ["root", "user", "userns"]

# Of an ordinary user: an id that owns nothing.
ORDINARY_ID = 61234

PROBES = Path(__file__).parent / "probes"

# The checkout may be where others cannot go: it is mounted where they can, in a mount namespace of the command's own.
AS_ORDINARY = 'mount --bind "$1" "$2" && mount --bind "$3" "$3" && shift 3 && exec setpriv --reuid={0} --regid={0} --clear-groups "$@"'

NETWORK = ("allowedDomains", "deniedDomains", "allowUnixSockets", "allowAllUnixSockets", "strictAllowlist")
FILES = {"denyRead": [], "allowWrite": ["."], "denyWrite": []}


def make_settings(**keys) -> dict:
    """srt's configuration, from its keys without the object they are in; by default the workspace is writable."""
    settings: dict = {"network": {"allowedDomains": [], "deniedDomains": []}, "filesystem": dict(FILES)}
    for key, value in keys.items():
        if key in NETWORK:
            settings["network"][key] = value
        elif key in FILES or key in ("allowRead", "allowGitConfig"):
            settings["filesystem"][key] = value
        else:
            settings[key] = value
    return settings


class Box:
    def __init__(self, place: harness.Place) -> None:
        self.place = place
        self.binary = harness.existing(Path(os.environ.get("IPYBOX_BIN", harness.ROOT / "build/ipybox")).resolve())
        self.source = place.root / "src"
        self.n_settings = 0

    def prepare(self, user: str) -> None:
        """The test's directories belong to whoever runs the commands."""
        if user == "root":
            return
        self.source.mkdir(exist_ok=True)
        for path in [self.place.root, *self.place.root.rglob("*")]:
            if not path.is_relative_to(self.source):
                os.chown(path, ORDINARY_ID, ORDINARY_ID, follow_symlinks=False)

    def program(self, user: str) -> str:
        """Where ipybox is for @user."""
        if user == "root":
            return str(self.binary)
        return str(self.source / self.binary.relative_to(harness.ROOT))

    def python(self, user: str) -> str:
        """The Python of .venv; settings need its place in allowRead: readable()."""
        return str((harness.ROOT if user == "root" else self.source) / ".venv/bin/python")

    def readable(self, user: str) -> list[str]:
        """What is to be readable for python(): it may be below /tmp, which a sandbox has for itself."""
        return [str((harness.ROOT if user == "root" else self.source) / ".venv")]

    def become(self, user: str) -> list[str]:
        """What to put before a command for it to be run by @user."""
        if user == "root":
            return []
        self.prepare(user)
        venv = os.path.realpath(harness.ROOT / ".venv")
        script = AS_ORDINARY.format(ORDINARY_ID)
        prefix = ["unshare", "--mount", "--propagation", "private", "sh", "-c", script, "sh"]
        prefix += [str(harness.ROOT), str(self.source), venv]
        return prefix + (["unshare", "--user", "--map-root-user"] if user == "userns" else [])

    def write_settings(self, settings: dict) -> str:
        self.n_settings += 1
        path = self.place.home / f"sandbox-{self.n_settings}.json"
        path.write_text(json.dumps(settings))
        path.chmod(0o644)
        return str(path)

    def command(self, command: list[str], settings: dict | None = None, *, user: str = "root", flags: tuple[str, ...] = ()) -> list[str]:
        """The command line that runs @command in a sandbox; settings None: make_settings()."""
        path = self.write_settings(make_settings() if settings is None else settings)
        return [*self.become(user), self.program(user), "sandbox", "--settings", path, *flags, "--", *command]

    def __call__(
        self,
        command: list[str],
        settings: dict | None = None,
        *,
        user: str = "root",
        sandbox: bool = True,
        flags: tuple[str, ...] = (),
        timeout: float = 60,
        **options,
    ) -> subprocess.CompletedProcess[str]:
        """Runs @command to its end; @sandbox False: without one, by the same user, at the same place."""
        if sandbox:
            line = self.command(command, settings, user=user, flags=flags)
        else:
            line = [*self.become(user), *command]
        return harness.run(line, self.place, timeout=timeout, **options)

    def probe(self, name: str, settings: dict | None = None, *args: str, user: str = "root", **options) -> dict:
        """Runs probes/<name>.py with the system's Python, which prints a JSON object."""
        script = (PROBES / f"{name}.py").read_text()
        done = self(["/usr/bin/python3", "-I", "-c", script, *args], settings, user=user, **options)
        assert done.returncode == 0, f"{done.returncode}\n{done.stdout}\n{done.stderr}"
        return json.loads(done.stdout)
