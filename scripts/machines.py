# SPDX-License-Identifier: Apache-2.0
"""Machines of other kinds than this one, for scripts/check-kernels and scripts/check-image: their
processors, Python packages for them, and virtual machines.

The virtual machines are emulated by qemu, so neither KVM nor a second computer is needed.
"""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

CONSOLE_LINES = 60


@dataclass(frozen=True)
class Architecture:
    """By Debian's name."""

    name: str
    machine: str  # as `uname -m` and wheels call it
    triplet: str  # of compilers, and of directories of libraries
    qemu: tuple[str, ...]
    console: str
    # The second serial line, for what the program in the machine reports, and its name inside
    report: tuple[str, ...]
    report_device: str


AMD64 = Architecture(
    "amd64",
    "x86_64",
    "x86_64-linux-gnu",
    ("qemu-system-x86_64", "-machine", "pc", "-cpu", "max"),
    "ttyS0",
    ("-serial", "stdio"),
    "ttyS1",
)
ARM64 = Architecture(
    "arm64",
    "aarch64",
    "aarch64-linux-gnu",
    ("qemu-system-aarch64", "-machine", "virt", "-cpu", "max,pauth-impdef=on"),
    "ttyAMA0",
    ("-chardev", "stdio,id=report", "-device", "pci-serial,chardev=report"),
    "ttyS0",
)
ARCHITECTURES = {each.name: each for each in (AMD64, ARM64)}


def pip_options(architecture: Architecture, python: str, glibc: int) -> list[str]:
    """For packages of a machine with that Python, such as 3.11, and glibc 2.@glibc."""
    platforms = [
        f"--platform={name}_{architecture.machine}"
        for name in ("manylinux2014", *(f"manylinux_2_{minor}" for minor in range(17, glibc + 1)))
    ]
    return ["--only-binary=:all:", f"--python-version={python}", *platforms]


@dataclass(frozen=True)
class VirtualMachine:
    """A kernel that runs /init of a disk with ext4, until it turns the machine off."""

    architecture: Architecture
    kernel: Path
    disk: Path
    console: Path  # a file for what the kernel says
    seconds: int  # what it may take, from its start to its end
    megabytes: int
    # QEMU's device of the disk, and its name inside. The kernel has the driver built in.
    device: str = "nvme,serial=1,drive=root"
    name: str = "nvme0n1"

    def run(self) -> Iterator[str]:
        """Yields the lines that programs in the machine write to the report device. Changes of the
        disk are not kept."""
        target = self.architecture
        options = (
            f"root=/dev/{self.name} rootfstype=ext4 rw init=/init console={target.console}"
            " panic=-1 quiet"
        )
        command = [
            *["nice", "-n", "4", *target.qemu, "-nodefaults", "-no-user-config"],
            *["-display", "none", "-no-reboot", "-accel", "tcg,thread=multi"],
            *["-smp", "2", "-m", str(self.megabytes)],
            *["-kernel", str(self.kernel), "-append", options],
            *["-drive", f"file={self.disk},format=raw,if=none,id=root,snapshot=on"],
            *["-device", self.device, "-serial", f"file:{self.console}", *target.report],
        ]
        with subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        ) as machine:
            assert machine.stdout is not None
            timer = threading.Timer(self.seconds, machine.kill)
            timer.start()
            try:
                for line in machine.stdout:
                    yield line.rstrip()
            finally:
                timer.cancel()
                machine.kill()

    def last_words(self) -> str:
        """The end of the console, for errors."""
        said = self.console.read_text(errors="replace") if self.console.exists() else ""
        return "\n".join(said.splitlines()[-CONSOLE_LINES:])
