# SPDX-License-Identifier: Apache-2.0
"""Where the forkserver imports from.

Started with -I alone, Python has set up site-packages itself: virtual environments, .pth files and
editable installs work. Started with -I -S nothing of that was done, because .pth files are code that
somebody else may have written: then site-packages (or the folders that the core names) are appended here,
of their .pth files only the lines that are paths are honoured, and what `site` sets besides is made up for. Paths that lead out
of site-packages are for kernels only: an editable install's lead to where a cell writes, and what is imported here, outside of
all sandboxes, looks for modules that are not installed (IPython for storemagic, copy for org).
"""

from __future__ import annotations

import builtins
import importlib.util
import os
import subprocess
import sys

# What a kernel cannot do without, by the name a user installs it under.
REQUIRED = {"IPython": "ipython", "pydantic": "pydantic"}


# What .pth files name outside of site-packages.
_outer_paths: list[str] = []


def set_up(site_packages: list[str] | None) -> None:
    if sys.flags.no_site:
        with_system = _enter_virtual_environment()
        _add_site_builtins()
        if site_packages is None:
            site_packages = _find_site_packages(with_system)
    for folder in site_packages or []:
        _append(folder)
        _append_paths_of_pth_files(folder)


def become_kernel() -> None:
    """In a kernel, which is in its sandbox."""
    for path in _outer_paths:
        _append(path)


def keep_flags_from_children() -> None:
    """multiprocessing and joblib start interpreters with the flags of ours. Those that the forkserver needs would take PYTHONPATH
    from them, and site-packages. To be done before multiprocessing is imported, which keeps the function."""
    own_flags = subprocess._args_from_interpreter_flags  # type: ignore[attr-defined]

    def flags_for_children() -> list[str]:
        return [flag for flag in own_flags() if flag not in ("-I", "-S")]

    subprocess._args_from_interpreter_flags = flags_for_children  # type: ignore[attr-defined]


def missing() -> list[str]:
    return [name for name in REQUIRED if importlib.util.find_spec(name) is None]


def _append(path: str) -> None:
    if path not in sys.path:
        sys.path.append(path)


def _append_paths_of_pth_files(folder: str) -> None:
    try:
        names = sorted(name for name in os.listdir(folder) if name.endswith(".pth"))
    except OSError:
        return
    for name in names:
        try:
            with open(
                os.path.join(folder, name), encoding="utf-8", errors="surrogateescape"
            ) as file:
                lines = file.read().splitlines()
        except OSError:
            continue
        for line in lines:
            line = line.strip()
            if not line or line.startswith(("#", "import ", "import\t")):
                continue
            path = os.path.abspath(os.path.join(folder, line))
            if not os.path.exists(path):
                continue
            if os.path.realpath(path).startswith(os.path.realpath(folder) + os.sep):
                _append(path)
            else:
                _outer_paths.append(path)


def _find_site_packages(with_system: bool) -> list[str]:
    """The folders that `site` would add; never the user's own, which -I leaves out, too."""
    import site

    prefixes = [sys.prefix]
    if with_system and sys.base_prefix not in prefixes:
        prefixes.append(sys.base_prefix)
    return [folder for folder in site.getsitepackages(prefixes) if os.path.isdir(folder)]


def _enter_virtual_environment() -> bool:
    """Sets sys.prefix as `site` does; to be done before anything imports sysconfig.

    Returns whether the packages of the base installation are wanted, too.
    """
    folder = os.path.dirname(os.path.abspath(sys.executable))
    for place in (folder, os.path.dirname(folder)):
        config = os.path.join(place, "pyvenv.cfg")
        if os.path.isfile(config):
            sys.prefix = sys.exec_prefix = os.path.dirname(folder)
            with open(config, encoding="utf-8", errors="surrogateescape") as file:
                settings = dict(_read_setting(line) for line in file if "=" in line)
            return settings.get("include-system-site-packages", "true") == "true"
    return True


def _read_setting(line: str) -> tuple[str, str]:
    name, _, value = line.partition("=")
    return name.strip().lower(), value.strip().lower()


def _add_site_builtins() -> None:
    import _sitebuiltins

    builtins.help = _sitebuiltins._Helper()
    for name in ("exit", "quit"):
        setattr(builtins, name, _sitebuiltins.Quitter(name, "Ctrl-D (i.e. EOF)"))
