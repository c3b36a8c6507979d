# SPDX-License-Identifier: Apache-2.0
"""Calls about names that nothing forbids: they do the same as without a sandbox.

A supervisor performs them for the caller. So everything about them is compared: the modes of new
files, the flags and numbers of descriptors, which error comes of which mistake, and pipes whose
opens wait.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from box import Box, make_settings
from kernels import Kernels
from names_hand import hand, kernel_hand

SETTINGS = make_settings(allowPty=True)

# In these two cases the supervisor opens for reading, too.
DENIALS = [[], ["**/*.key"]]

# What differs by design: the check, and the place in its result.
DIFFERENT: set[tuple] = {
    # Where the path of a directory would be too long, no call about names works.
    *(("deep_directories", number) for number in range(4)),
    # Another of two errors that both apply.
    ("open_a_link_to_a_directory_with_a_slash", 8, 0),
    ("descriptors_of_other_kinds", 4),
}
# What only root may do: no id but the caller's own exists inside, and Landlock refuses devices.
FOR_ROOT = {("other_owners", number) for number in range(6)}


def differing(inside: object, outside: object, where: tuple = ()) -> Iterator[tuple]:
    """Each place where the results are not the same: where, inside, outside."""
    if isinstance(inside, dict) and isinstance(outside, dict) and inside.keys() == outside.keys():
        for name in inside:
            yield from differing(inside[name], outside[name], (*where, name))
    elif isinstance(inside, list) and isinstance(outside, list) and len(inside) == len(outside):
        for number, pair in enumerate(zip(inside, outside, strict=True)):
            yield from differing(*pair, (*where, number))
    elif inside != outside:
        yield where, inside, outside


def same(inside: dict, outside: dict) -> list[tuple]:
    return [one for one in differing(inside, outside) if one[0] not in DIFFERENT]


def results(box: Box, user: str, kind: str, sandbox: bool, deny_read: list[str]) -> dict:
    name = "inside" if sandbox else "outside"
    directory = box.place.workspace / name
    directory.mkdir()
    box.prepare(user)
    settings = make_settings(denyRead=deny_read)
    with hand(box, settings, "names_twins", user=user, sandbox=sandbox, cwd=directory) as inside:
        (found,) = inside("run", kind)
    return found


@pytest.mark.parametrize("deny_read", DENIALS, ids=["writes", "all"])
def test_same_results(box: Box, user: str, deny_read: list[str]) -> None:
    outside = results(box, user, "checks", False, [])
    inside = results(box, user, "checks", True, deny_read)
    assert same(inside, outside) == []
    assert len(inside) > 60


def test_same_errors_of_an_ordinary_user(box: Box) -> None:
    """Also where modes of files forbid something."""
    outside = results(box, "user", "privileged", False, [])
    inside = results(box, "user", "privileged", True, [])
    assert [one for one in same(inside, outside) if one[0] not in FOR_ROOT] == []
    assert outside["modes_that_forbid"][1] == "EACCES"
    assert set(outside["other_owners"]) == {"EPERM"}
    assert set(inside["other_owners"]) <= {"EPERM", "EINVAL", "EACCES"}


def test_root_without_its_privileges(box: Box, user: str) -> None:
    """Inside, root and the root of a user namespace are ordinary users."""
    outside = results(box, "user", "privileged", False, [])
    inside = results(box, user, "privileged", True, [])
    assert [one for one in same(inside, outside) if one[0] not in FOR_ROOT] == []
    assert set(inside["other_owners"]) <= {"EPERM", "EINVAL", "EACCES"}


def test_in_kernels(kernels: Kernels) -> None:
    with kernel_hand(kernels, SETTINGS, "names_twins") as inside:
        assert inside("mkdir", "inside") == inside("chdir", "inside") == "ok"
        (found,) = inside("run", "checks")
    outside = results(kernels.box, kernels.user, "checks", False, [])
    assert same(found, outside) == []


def test_terminals(box: Box, user: str) -> None:
    with hand(box, SETTINGS, "names_twins", user=user) as inside:
        status, said = inside("terminal")
    # The caller's own terminal, which has two names.
    assert status == 7 and said in ("/dev/tty True\r\n", "/dev/pts/0 True\r\n")
