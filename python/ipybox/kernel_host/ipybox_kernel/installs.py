# SPDX-License-Identifier: Apache-2.0
"""`!pip install`, `%pip` and `%conda`.

A sandbox has no network. There a tool call asks ipybox to install the packages.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import os
import re
import shlex
import sys
from typing import Any

from IPython.core.error import UsageError

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
# Commands of pip that change packages, and of conda that change environments.
CHANGES = ("install", "uninstall")
CONDA_CHANGES = ("create", "install", "remove", "uninstall", "update", "upgrade")
WITHOUT_PIP = (
    "this Python has no pip: !uv pip install NAME works if uv is installed, and "
    "!python -m ensurepip may install pip."
)
IN_A_SANDBOX = (
    "In a sandbox, ipybox itself installs packages if a command is only `pip install` with names, "
    "versions or wheels: %pip install 'numpy>=2' pandas"
)


def find_packages(command: str) -> list[str] | None:
    """The requirements of a plain `pip install …`; None for any other command."""
    line = BARE_REQUIREMENT.sub(r"'\1'", command)
    if SHELL_SYNTAX.search(QUOTED.sub("", line)):
        return None
    try:
        words = shlex.split(line)
    except ValueError:
        return None
    arguments = find_arguments(words)
    if arguments[:1] != ["install"]:
        return None
    packages = [word for word in arguments[1:] if word not in IGNORED]
    is_plain = all(not word.startswith("-") for word in packages)
    return packages if packages and is_plain else None


def find_arguments(words: list[str]) -> list[str]:
    """What follows `pip` in a command; [] if the command is another one."""
    own = [sys.executable, "-m"]
    for installer in [*INSTALLERS, [*own, "pip"], [*own, "uv", "pip"]]:
        if words[: len(installer)] == installer:
            return words[len(installer) :]
    return []


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


def is_sandboxed() -> bool:
    return "IPYBOX_INSTALLS" in os.environ


def can_install() -> bool:
    """Whether ipybox itself installs packages, by tool calls."""
    return os.environ.get("IPYBOX_INSTALLS") == "1"


def how_to_install() -> str:
    if can_install():
        return IN_A_SANDBOX
    return (
        "The kernels of this gateway run in sandboxes, and cells cannot ask it to install "
        f"packages. Install them outside of ipybox, into {sys.prefix}"
    )


def explain_failure(command: str) -> None:
    """Prints why pip or uv may have failed, and what to do."""
    try:
        arguments = find_arguments(shlex.split(command))
    except ValueError:
        return
    if arguments[:1] == ["install"] and is_sandboxed() and not can_install():
        print(f"ipybox: {how_to_install()}.", file=sys.stderr)
    elif arguments[:1] == ["install"] and is_sandboxed():
        options = [word for word in arguments if word.startswith("-") and word not in IGNORED]
        what = f"it has the option {options[0]}" if options else "it is more than that"
        print(f"ipybox: {IN_A_SANDBOX}. This command ran in the sandbox: {what}.", file=sys.stderr)
    elif arguments and not has_pip() and "uv" not in shlex.split(command):
        print(f"ipybox: {WITHOUT_PIP}", file=sys.stderr)
    else:
        explain_settings(command)


def explain_settings(command: str) -> None:
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
    if not can_install():
        return None
    packages = find_packages(command)
    return None if packages is None else install(packages, is_quiet(command))


# Magics


def take_over_packaging_magics() -> None:
    """Changes IPython's magics before a shell uses them."""
    from IPython.core.magics.packaging import PackagingMagics

    original = PackagingMagics.pip

    @functools.wraps(original)
    def pip(self: Any, line: str) -> None:
        run_pip(self.shell, line, functools.partial(original, self))

    PackagingMagics.pip = pip
    for name in ("conda", "mamba", "micromamba"):
        magic = getattr(PackagingMagics, name, None)  # some are newer than others
        if magic is not None:
            setattr(PackagingMagics, name, _guard_conda(name, magic))


def run_pip(shell: Any, line: str, original: Any) -> None:
    command = (line.split() or [""])[0]
    if command in ("list", "freeze", "show") and not has_pip():
        show_packages(command, shlex.split(line)[1:])
        return
    if command in CHANGES:
        original(line)  # with a note about restarting the kernel
    else:
        shell.system(f"{shlex.quote(sys.executable)} -m pip {line}")
    if command == "uninstall" and is_sandboxed():
        print(
            "ipybox: a sandbox cannot remove packages of the kernel's Python. Those that cells "
            "installed are in .ipybox/packages of the workspace: delete them there, and reset the "
            "session.",
            file=sys.stderr,
        )


def has_pip() -> bool:
    return importlib.util.find_spec("pip") is not None


def show_packages(command: str, names: list[str]) -> None:
    """`%pip list`, `freeze` and `show` for a Python without pip."""
    from importlib import metadata  # it imports much

    if any(name.startswith("-") for name in names):
        raise UsageError(f"options of %pip {command} need pip, which this Python does not have")
    found: dict[str, Any] = {}
    for package in metadata.distributions():
        found.setdefault(_normal_name(package.metadata["Name"] or ""), package)
    found.pop("", None)
    if command != "show":
        separator = "==" if command == "freeze" else " "
        for name in sorted(found):
            print(f"{found[name].metadata['Name']}{separator}{found[name].version}")
        return
    for name in names:
        shown = found.get(_normal_name(name))
        if shown is None:
            print(f"WARNING: Package(s) not found: {name}", file=sys.stderr)
            continue
        print(f"Name: {shown.metadata['Name']}\nVersion: {shown.version}")
        print(f"Summary: {shown.metadata['Summary'] or ''}")
        print(f"Location: {shown.locate_file('')}")
        print(f"Requires: {', '.join(shown.requires or [])}")


def _normal_name(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _guard_conda(name: str, magic: Any) -> Any:
    @functools.wraps(magic)
    def guarded(self: Any, line: str) -> Any:
        if is_sandboxed() and line.split()[:1] and line.split()[0] in CONDA_CHANGES:
            raise UsageError(
                f"%{name} cannot change an environment in a sandbox. {how_to_install()}. "
                f"For other packages of {name}, use it outside of ipybox, and reset the session."
            )
        return magic(self, line)

    return guarded
