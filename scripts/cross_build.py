# SPDX-License-Identifier: Apache-2.0
"""Builds for another architecture, for scripts/wheel and scripts/check-kernels: Debian's cross
compiler, with that architecture's packages, which are unpacked in a directory and not installed."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

from machines import Architecture

ROOT = Path(__file__).resolve().parents[1]
RETRY = ROOT / "scripts/retry"
CROSS_FILE = """\
[binaries]
c = ['{triplet}-gcc', '--sysroot={root}']
ar = '{triplet}-ar'
strip = '{triplet}-strip'
# Meson before 1.3 has the first name.
pkgconfig = 'pkg-config'
pkg-config = 'pkg-config'
exe_wrapper = ['qemu-{machine}', '-L', '{root}']

[properties]
sys_root = '{root}'
pkg_config_libdir = [{directories}]

[host_machine]
system = 'linux'
cpu_family = '{machine}'
cpu = '{machine}'
endian = 'little'
"""


def run(*command: str | Path, cwd: Path = ROOT, env: dict[str, str] | None = None) -> str:
    done = subprocess.run(
        command,
        cwd=cwd,
        env=os.environ | (env or {}),
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
    )
    if done.returncode != 0:
        words = shlex.join(map(str, command))
        sys.exit(f"{done.stdout[-8000:]}\n{Path(sys.argv[0]).name}: failed: {words}")
    return done.stdout


def apt(where: Path, kind: str, **more: str | Path) -> list[str]:
    """An apt-get with lists of its own: of the running release's packages of a kind, deb-src or
    deb."""
    (where / "lists/partial").mkdir(parents=True)
    (where / "sources.list").write_text(run("scripts/debian-sources", kind))
    settings = {
        "Dir::Etc::SourceList": where / "sources.list",
        "Dir::Etc::SourceParts": "/dev/null",
        "Dir::State::Lists": where / "lists",
        "Dir::Cache": where / "cache",
        "APT::Sandbox::User": "root",
    }
    settings |= {name.replace("_", "::"): value for name, value in more.items()}
    command = ["apt-get", *[f"-o{name}={value}" for name, value in settings.items()]]
    run(RETRY, *command, "update", "-q")
    return command


class CrossBuild:
    """The libraries of another architecture, in a directory that compilers take as the root."""

    def __init__(
        self, target: Architecture, where: Path, packages: list[str], prefix: Path | None = None
    ) -> None:
        """Fetches @packages and what they need. @prefix: where in the root libraries go that are
        built."""
        self.target = target
        self.root = where / "root"
        self.root.mkdir(parents=True)
        # Of static libraries: binary package, source package, version
        self.archives: dict[Path, tuple[str, str, str]] = {}
        self._prefix = prefix
        self._fetch(where, packages)

    def _fetch(self, where: Path, packages: list[str]) -> None:
        (where / "apt/cache/archives/partial").mkdir(parents=True)
        (where / "apt/status").touch()
        settings = {
            "APT_Architecture": self.target.name,
            "APT_Architectures": self.target.name,
            "Dir_State_status": where / "apt/status",
        }
        command = apt(where / "apt", "deb", **settings)
        options = ["install", "-qq", "--yes", "--download-only", "--no-install-recommends"]
        run(RETRY, *command, *options, *packages)
        # Directories of the root first: other packages have files behind these links.
        for name in ("bin", "sbin", "lib"):
            (self.root / "usr" / name).mkdir(parents=True)
            (self.root / name).symlink_to(f"usr/{name}")
        for package in sorted((where / "apt/cache/archives").glob("*.deb")):
            tar = subprocess.run(["dpkg-deb", "--fsys-tarfile", package], capture_output=True)
            unpack = ["tar", "-x", "--keep-directory-symlink", "-C", self.root]
            subprocess.run(unpack, input=tar.stdout, check=True)
            self._remember(package)

    def _remember(self, package: Path) -> None:
        form = "${Package} ${source:Package} ${source:Version}"
        binary, source, version = run("dpkg-deb", "--show", "--showformat", form, package).split()
        for name in re.findall(r" \./(\S+\.a)$", run("dpkg-deb", "-c", package), re.MULTILINE):
            self.archives[(self.root / name).resolve()] = binary, source, version

    def environment(self) -> dict[str, str]:
        """For `configure`."""
        compilers = {"CC": "gcc", "CXX": "g++"}
        tools = {"AR": "ar", "RANLIB": "ranlib", "STRIP": "strip", "NM": "nm"}
        triplet = self.target.triplet
        return {
            **{name: f"{triplet}-{tool} --sysroot={self.root}" for name, tool in compilers.items()},
            **{name: f"{triplet}-{tool}" for name, tool in tools.items()},
            "PKG_CONFIG_SYSROOT_DIR": str(self.root),
            "PKG_CONFIG_LIBDIR": ":".join(self._pkg_config_directories()),
        }

    def _pkg_config_directories(self) -> list[str]:
        names = [f"/usr/lib/{self.target.triplet}", "/usr/share"]
        if self._prefix:
            names.append(f"{self._prefix}/lib")
        return [f"{self.root}{name}/pkgconfig" for name in names]

    def write_meson_file(self, path: Path) -> None:
        text = CROSS_FILE.format(
            triplet=self.target.triplet,
            machine=self.target.machine,
            root=self.root,
            directories=", ".join(f"'{each}'" for each in self._pkg_config_directories()),
        )
        path.write_text(text)
