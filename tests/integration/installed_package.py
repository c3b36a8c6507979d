# SPDX-License-Identifier: Apache-2.0
"""The package `ipybox`, installed by pip in its own environment as applications have it, and type
checks of programs that use it.
"""

from __future__ import annotations

import base64
import hashlib
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import harness

NAME = "ipybox-1.0.0.dev0"


def make_wheel(directory: Path) -> Path:
    """A wheel with the Python files of the real one and without the program.

    python/meson.build takes the same folder.
    """
    source = harness.ROOT / "python"
    files = {
        str(path.relative_to(source)): path.read_bytes()
        for path in source.glob("ipybox/**/*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    info = f"{NAME}.dist-info"
    files[f"{info}/METADATA"] = b"Metadata-Version: 2.1\nName: ipybox\nVersion: 1.0.0.dev0\n"
    files[f"{info}/WHEEL"] = (
        b"Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    )
    digests = {
        name: base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        for name, data in files.items()
    }
    record = [f"{name},sha256={digest},{len(files[name])}" for name, digest in digests.items()]
    files[f"{info}/RECORD"] = "\n".join([*record, f"{info}/RECORD,,", ""]).encode()
    path = directory / f"{NAME}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as wheel:
        for name, data in files.items():
            wheel.writestr(name, data)
    return path


def install(directory: Path) -> Path:
    """Returns the environment's Python. It also has the other packages that the tests have."""
    wheel = make_wheel(directory)
    python = directory / "venv/bin/python"
    run(sys.executable, "-m", "venv", "--without-pip", str(directory / "venv"))
    run(
        sys.executable,
        "-m",
        "pip",
        "--python",
        str(python),
        "install",
        "--no-deps",
        "--no-index",
        "--quiet",
        str(wheel),
    )
    (site,) = (directory / "venv/lib").glob("python*/site-packages")
    (site / "others.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return python


def run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def check_types(python: Path, directory: Path, *what: str) -> subprocess.CompletedProcess[str]:
    """Runs `mypy --strict` on the directory, or on some of it, beside that package."""
    options = [
        "--strict",
        "--python-version",
        "3.10",
        "--explicit-package-bases",
        "--cache-dir",
        str(python.parent / "mypy"),
    ]
    environ = {"MYPYPATH": ".", "PATH": "/usr/bin:/bin"}
    return subprocess.run(
        [
            sys.executable,
            "-m",
            "mypy",
            *options,
            "--python-executable",
            str(python),
            *(what or ["."]),
        ],
        cwd=directory,
        env=environ,
        capture_output=True,
        text=True,
    )
