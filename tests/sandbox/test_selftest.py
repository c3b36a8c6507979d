# SPDX-License-Identifier: Apache-2.0
"""`ipybox selftest`: everything is held for every user; and without a sandbox its attempts have an
effect.
"""

from __future__ import annotations

import json

from box import Box

# What these users cannot do anyway.
NOT_FOR_ORDINARY = {"make a device", "read network packets"}
# What the machine may not have, or may not allow to any user.
MACHINE = {
    "use io_uring",
    "call as a 32-bit program does",
    "connect to the host of a virtual machine",
    "use the kernel's keyrings",
    "make a user namespace",
    "find a route to the internet",
    "gain privileges by executing",
    "write the memory of the first process",
}


def run(box: Box, user: str, *flags: str):
    return box([*box.become(user), box.program(user), "selftest", *flags], sandbox=False)


def test_all_is_held(box: Box, user: str) -> None:
    done = run(box, user, "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    attacks = json.loads(done.stdout)
    assert len(attacks) > 25 and all(attack["held"] and attack["error"] for attack in attacks)
    assert {attack["section"] for attack in attacks} == {
        "files",
        "names",
        "processes",
        "system calls",
        "network",
    }
    assert {attack["error"] for attack in attacks if attack["section"] == "names"} == {"EACCES"}
    assert all(attack["why"] is None for attack in attacks)
    idle = {attack["attack"] for attack in attacks if not attack["worksWithout"]}
    assert idle <= MACHINE | (set() if user == "root" else NOT_FOR_ORDINARY)
    assert list((box.place.state / "ipybox").iterdir()) == []


def test_staged(box: Box, user: str) -> None:
    """The same attacks, and those on the layer and on what is committed. Each of these works
    without a sandbox, so what looks for its effect on the host can find it.
    """
    plain = {each["attack"] for each in json.loads(run(box, user, "--json").stdout)}
    done = run(box, user, "--staged", "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    attacks = json.loads(done.stdout)
    assert all(attack["held"] for attack in attacks), done.stdout
    staged = [attack for attack in attacks if attack["section"] == "staged workspace"]
    assert {attack["attack"] for attack in attacks if attack not in staged} == plain
    assert len(staged) >= 16 and all(attack["worksWithout"] for attack in staged), staged
    # These are done inside, and have no effect on the workspace.
    assert {attack["attack"] for attack in attacks if attack["error"] is None} == {
        "change a file before the commit",
        "hide a directory by a mark",
        "redirect a directory by a mark",
        "commit a FIFO",
    }
    assert list((box.place.state / "ipybox").iterdir()) == []


def test_table(box: Box) -> None:
    done = run(box, "root")
    assert (
        done.returncode == 0
        and "stopped" in done.stdout
        and done.stdout.splitlines()[-1].endswith("attacks were stopped.")
    )
    assert "NOT STOPPED" not in done.stdout


def test_reader_that_leaves(box: Box) -> None:
    """Nothing remains if the table cannot be written: the fixture and this test check it."""
    command = [*box.become("root"), box.program("root"), "selftest"]
    done = box(
        ["bash", "-c", '"$@" | true; echo "${PIPESTATUS[0]}"', "bash", *command], sandbox=False
    )
    assert done.stdout == "141\n"
    assert list((box.place.state / "ipybox").iterdir()) == []


def test_where_no_sandbox_can_be_made(box: Box) -> None:
    forbid = ["sh", "-c", 'echo 0 > /proc/sys/user/max_user_namespaces && exec "$@"', "sh"]
    done = box([*box.become("userns"), *forbid, box.program("userns"), "selftest"], sandbox=False)
    assert done.returncode == 3 and "max_user_namespaces" in done.stderr
