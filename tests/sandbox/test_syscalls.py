# SPDX-License-Identifier: Apache-2.0
"""Attack suite D, system calls: denied calls fail with exactly the errno of the table, each in a
child of its own. Similar harmless calls work.
"""

from __future__ import annotations

import re
import subprocess

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


# As the kernel's asm/unistd.h of each architecture, without the calls of 32-bit programs.
HEADERS = {
    "x86-64": "#include <asm/unistd_64.h>",
    "arm64": """
#define __ARCH_WANT_RENAMEAT
#define __ARCH_WANT_NEW_STAT
#define __ARCH_WANT_SET_GET_RLIMIT
#define __ARCH_WANT_TIME32_SYSCALLS
#define __ARCH_WANT_SYS_CLONE3
#define __ARCH_WANT_MEMFD_SECRET
#include <asm-generic/unistd.h>
""",
}
# No calls: the ends of the list.
MARKS = {"arch_specific_syscall", "syscalls"}


def calls(architecture: str) -> set[str]:
    """All system calls, by the headers of the kernel."""
    done = subprocess.run(
        ["cc", "-E", "-dM", "-x", "c", "-"],
        input=HEADERS[architecture],
        capture_output=True,
        text=True,
        check=True,
    )
    return set(re.findall(r"^#define __NR_(\w+) ", done.stdout, re.MULTILINE)) - MARKS


def test_arm64_has_no_call_that_was_not_considered() -> None:
    """The table was written for x86-64, call by call. What arm64 has is a part of it."""
    assert len(calls("arm64")) > 250
    assert calls("arm64") - calls("x86-64") == set()


@pytest.mark.parametrize("architecture", HEADERS)
def test_numbers_in_the_table_are_those_of_the_kernel(architecture: str) -> None:
    rows = dict(re.findall(r'"(\w+)", (\d{3})[,}]', TABLE.read_text()))
    assert len(rows) > 15
    code = "".join(f"#ifdef __NR_{name}\n{name}: __NR_{name}\n#endif\n" for name in rows)
    done = subprocess.run(
        ["cc", "-E", "-P", "-x", "c", "-"],
        input=f"{HEADERS[architecture]}\n{code}",
        capture_output=True,
        text=True,
        check=True,
    )
    found = dict(re.findall(r"^(\w+): (\d+)$", done.stdout, re.MULTILINE))
    assert len(found) > 10
    assert found == {name: rows[name] for name in found}


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
