# SPDX-License-Identifier: Apache-2.0
"""Root, and file systems that cannot be mounted with an id map, such as overlayfs (see
docs/internals/sandbox.md).
"""

from __future__ import annotations

import pytest
from box import Box, make_settings

pytestmark = pytest.mark.needs_root

# Mounts an overlayfs over the workspace's directory $1, in the command's own mount namespace, and
# runs the rest of the command line.
OVERLAY = """
at=$1 && shift && base=$(mktemp -d) && mount -t tmpfs none "$base" &&
mkdir "$base/lower" "$base/upper" "$base/work" &&
mount -t overlay none -o "lowerdir=$base/lower,upperdir=$base/upper,workdir=$base/work" "$at" &&
echo public > "$at/public" && echo secret > "$at/secret" && chmod 600 "$at/secret" &&
umount -l "$base" && rmdir "$base" && cd "$PWD" && exec "$@"
"""


def over(directory: str, command: list[str]) -> list[str]:
    return [
        "unshare",
        "--mount",
        "--propagation",
        "private",
        "sh",
        "-c",
        OVERLAY,
        "sh",
        directory,
        *command,
    ]


def test_mount_below_what_is_writable(box: Box) -> None:
    """In such a file system, code inside may do what every user may do.

    Around it, it writes as usual.
    """
    (box.place.workspace / "below").mkdir()
    script = (
        "echo x > made; cat made below/public; cat below/secret || echo closed; "
        "(echo x > below/made) 2>&- || echo not written"
    )
    done = box(over("below", box.command(["sh", "-c", script])), sandbox=False)
    assert done.stdout.splitlines() == ["x", "public", "closed", "not written"], done.stderr
    assert (box.place.workspace / "made").read_text() == "x\n"


def test_what_is_writable(box: Box) -> None:
    """Such a file system cannot be writable for root, which is reported before anything runs."""
    done = box(over(".", box.command(["touch", "ran"])), sandbox=False)
    assert (
        done.returncode == 3
        and "cannot mount with an id map" in done.stderr
        and "overlayfs" in done.stderr
    ), done.stderr


def test_what_is_denied_for_writing_is_not_opened(box: Box) -> None:
    """If everything is writable that every user may write, files that are closed to others stay
    closed, protected files included.
    """
    closed = box.place.root / "closed"
    (closed / "in").mkdir(parents=True)
    for path in (closed / "in/.env", closed / "file"):
        path.write_text("secret")
    closed.chmod(0o700)
    settings = make_settings(
        allowWrite=["/"],
        denyWrite=[str(closed / "in/.env"), str(closed / "file")],
        mandatoryDenySearchDepth=1,
    )
    script = f"ls {closed}; cat {closed}/in/.env {closed}/file; echo done"
    done = box(["sh", "-c", script], settings)
    assert done.stdout == "done\n" and done.stderr.count("Permission denied") == 3, done.stderr
    assert "secretsecret" in box(["sh", "-c", script], sandbox=False).stdout


# As with systemd, mounts are shared between namespaces. Prints what is mounted in the workspace
# before, while and after a command runs.
SHARED = """
mount --make-rshared / && grep -q shared: /proc/self/mountinfo &&
mkdir later && mkfifo ready go || exit
"$@" &
read line <ready && mount -t tmpfs none later && touch later/of-the-host &&
cat .env && grep -c " $PWD/" /proc/self/mountinfo
echo >go; wait; umount later; cat .env; grep -c " $PWD/" /proc/self/mountinfo
"""


def test_mounts_that_are_shared(box: Box) -> None:
    """Mounts of the sandbox do not appear on the host, and later mounts of the host do not appear
    in the sandbox.
    """
    for name in (".env", ".git/hooks/x", ".git/config"):
        path = box.place.workspace / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("of the host\n")
    inside = (
        "cat .env 2>&1 | cut -d: -f3; echo >ready; read line <go; ls later; "
        "echo x >.git/hooks/x || echo done"
    )
    line = box.command(["sh", "-c", inside], make_settings(denyRead=[".env"]))
    done = box(
        ["unshare", "--mount", "--propagation", "private", "sh", "-c", SHARED, "sh", *line],
        sandbox=False,
    )
    assert done.stdout.splitlines() == [
        " Permission denied",
        "of the host",
        "1",
        "done",
        "of the host",
        "0",
    ], done
