# SPDX-License-Identifier: Apache-2.0
"""Attack suite D, system calls: denied calls fail with exactly the errno of the table, each in a
child of its own. Similar harmless calls work.
"""

from __future__ import annotations

import re

import harness
import pytest
from box import Box

TABLE = harness.ROOT / "src/sandbox/linux/seccomp-table.c"
# Of other architectures.
FOREIGN = {"vm86", "vm86old", "umount", "clock_settime64", "stime"}
# Calls that this kernel may not have: nothing to compare.
GONE = {
    "create_module",
    "nfsservctl",
    "uselib",
    "ustat",
    "sysfs",
    "_sysctl",
    "lookup_dcookie",
    "from the future",
    "x32",
}
GONE |= {f"socket {family}" for family in ("alg", "bluetooth", "can", "vsock", "xdp")}

EXPECTED = {
    "landlock_create_ruleset": "ENOTSUP",  # Python's name of EOPNOTSUPP
    "x32": "ENOSYS",
    "int80": "ENOSYS",
    "from the future": "ENOSYS",
    "socket inet raw": "EPERM",
    "socket unix dgram": "EACCES",
    "socket unix dgram, high bits": "EACCES",
    "socket unix raw": "EACCES",
    "socketpair unix dgram": "EACCES",
    "socket netlink kobject": "EPROTONOSUPPORT",
    "socket netlink netfilter": "EPROTONOSUPPORT",
}


def denied_calls() -> dict[str, str]:
    """The rows of IPB_DENIED_CALLS and IPB_UNJUDGED_CALLS: name → errno."""
    rows = re.findall(r'\{"(\w+)", \d+, (E\w+),\s', TABLE.read_text())
    assert len(rows) > 50
    return dict(rows)


def expected(name: str) -> str:
    if name in EXPECTED:
        return EXPECTED[name]
    if name.startswith("socket "):
        return "EAFNOSUPPORT"
    return denied_calls().get(name, "EPERM")


def test_each_row_is_tried(box: Box) -> None:
    tried = box.probe("syscalls").keys()
    assert set(denied_calls()) - FOREIGN <= set(tried)
    for call in set(re.findall(r'(?:MODE_BITS|OPEN_MODE_BITS)\("(\w+)"', TABLE.read_text())):
        assert f"{call} setuid" in tried


def test_denied_calls_and_their_twins(box: Box, user: str) -> None:
    results = box.probe("syscalls", user=user)
    wrong = {
        name: (result, "ok" if name.startswith("twin: ") else expected(name))
        for name, result in results.items()
        if result != ("ok" if name.startswith("twin: ") else expected(name))
    }
    assert not wrong, "(is, should be): " + str(wrong)


@pytest.mark.needs_root
def test_without_a_sandbox_they_are_not_denied(box: Box) -> None:
    """Positive control: the same probe, as root, and in a session of its own because of vhangup."""
    results = box.probe("syscalls", sandbox=False, start_new_session=True)
    same = {
        name
        for name, result in results.items()
        if not name.startswith("twin: ") and result == expected(name)
    }
    assert same <= GONE, same
    assert {
        name for name in results if name.startswith("twin: ") and results[name] != "ok"
    } == set()
