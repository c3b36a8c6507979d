# SPDX-License-Identifier: Apache-2.0
"""The import path of the forkserver.

With -I alone, Python has set up site-packages itself: virtual environments, .pth files and editable
installs work.

With -I -S it has not, because .pth files are code, and a cell may have written them. Then this
module does the work of `site`. It appends site-packages, or the folders that the core names. Of
.pth files it uses only the lines that are paths. Paths that lead out of site-packages, such as
those of editable installs, are used in kernels only. Cells may write to such a folder, and the
forkserver is outside of all sandboxes. A cell could place a module there which the forkserver tries
to import although it is not installed: IPython tries storemagic, and the module copy tries org.
"""

from __future__ import annotations

import builtins
import importlib.util
import os
import subprocess
import sys

# The modules that a kernel needs, with the names of their packages.
REQUIRED = {"IPython": "ipython", "pydantic": "pydantic"}


# Paths of .pth files that lead out of site-packages.
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
    """Called in a kernel, which is in its sandbox."""
    for path in _outer_paths:
        _append(path)


def keep_flags_from_children() -> None:
    """Removes the forkserver's flags from interpreters that multiprocessing and joblib start.

    They start interpreters with the flags of this one, and -I and -S would hide PYTHONPATH and
    site-packages from them. To be called before multiprocessing is imported, because it keeps a
    reference to the function.
    """
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
    """The folders that `site` would add, except the user's own, which -I excludes as well."""
    import site

    prefixes = [sys.prefix]
    if with_system and sys.base_prefix not in prefixes:
        prefixes.append(sys.base_prefix)
    return [folder for folder in site.getsitepackages(prefixes) if os.path.isdir(folder)]


def _enter_virtual_environment() -> bool:
    """Sets sys.prefix as `site` does. To be called before any module imports sysconfig.

    Returns whether the packages of the base installation are included.
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
