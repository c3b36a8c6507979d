# SPDX-License-Identifier: Apache-2.0
"""`!pip install` and `%pip install`.

A sandbox has no network. There a tool call asks ipybox to install the packages.
"""

from __future__ import annotations

import importlib
import os
import re
import shlex
import sys

# Characters that a shell interprets: a line that has one is left to the shell.
SHELL_SYNTAX = re.compile(r"[;&|<>$`(){}*\n]")
# A requirement without quotes, which a shell would take for a redirection: numpy>=1.20
BARE_REQUIREMENT = re.compile(r"(?<!\S)([\w.-]+(?:\[[\w,.-]*\])?[<>=!~]=?[\w.*,<>=!~-]+)(?!\S)")
QUOTED = re.compile(r"'[^']*'|\"[^\"$`\\]*\"")
# Options that have no effect here.
IGNORED = {
    "-q",
    "-qq",
    "--quiet",
    "-U",
    "--upgrade",
    "--no-input",
    "--disable-pip-version-check",
    "--system",
}
INSTALLERS = [["pip"], ["pip3"], ["uv", "pip"], ["python", "-m", "pip"], ["python3", "-m", "pip"]]


def find_packages(command: str) -> list[str] | None:
    """The requirements of a plain `pip install …`; None for any other command."""
    line = BARE_REQUIREMENT.sub(r"'\1'", command)
    if SHELL_SYNTAX.search(QUOTED.sub("", line)):
        return None
    try:
        words = shlex.split(line)
    except ValueError:
        return None
    for installer in [*INSTALLERS, [sys.executable, "-m", "pip"]]:
        if words[: len(installer) + 1] == [*installer, "install"]:
            packages = [word for word in words[len(installer) + 1 :] if word not in IGNORED]
            is_plain = all(not word.startswith("-") for word in packages)
            return packages if packages and is_plain else None
    return None


def is_quiet(command: str) -> bool:
    return not {"-q", "-qq", "--quiet"}.isdisjoint(command.split())


def install(packages: list[str], quiet: bool) -> int:
    """Installs by tool calls. Returns the exit status that pip would return."""
    from ipybox.tool_exec.client import ToolRunner, ToolRunnerError

    runner = ToolRunner("ipybox", server_id="ipybox")
    for package in packages:
        try:
            output = runner.run_sync("install_package", {"package": package})
        except ToolRunnerError as error:
            print(error, file=sys.stderr)
            return 1
        if not quiet:
            print(output, end="")
    importlib.invalidate_caches()
    return 0


def explain_failure(command: str) -> None:
    """Prints which settings of ipybox's environment pip or uv did not get, and how to pass them."""
    withheld = [
        name
        for name in os.environ.get("IPYBOX_WITHHELD_SETTINGS", "").split(", ")
        if name and name not in os.environ
    ]
    if withheld and find_packages(command):
        print(
            f"ipybox: cells do not get {', '.join(withheld)} of ipybox's environment, because they "
            f"may contain passwords. install_package uses them. To pass one to cells, set "
            f"KERNEL_ENV_{withheld[0]} instead.",
            file=sys.stderr,
        )


def take_over(command: str) -> int | None:
    """Runs the command if it is an installation for ipybox. Returns the exit status, else None."""
    if not os.environ.get("IPYBOX_INSTALLS"):
        return None
    packages = find_packages(command)
    return None if packages is None else install(packages, is_quiet(command))
