# SPDX-License-Identifier: Apache-2.0
"""The forkserver's loop: it waits for packets of the core and for the end of children.

The process has no threads when it forks. All state is in one `Forkserver`.
"""

from __future__ import annotations

import os
import platform
import select
import signal
import socket
import sys
import traceback
from typing import Any, NoReturn

from . import children, interpreter, linux, process, side_command, warmup
from .branching import Brancher
from .control_socket import ControlSocket, close_all, shorten
from .interrupts import REPETITION
from .sandbox import Entrance

VERSION = 1


def serve(control_fd: int) -> process.Forked | None:
    """Serves until the core ends, and returns None. A forked child returns its kernel."""
    forkserver = Forkserver(ControlSocket(control_fd))
    try:
        return forkserver.run()
    except BaseException as error:
        # A child never gets here: it becomes a kernel or ends.
        children.kill_everything()
        if not isinstance(error, (BrokenPipeError, ConnectionResetError)):  # the core has ended
            raise
        return None


class Forkserver:
    def __init__(self, control: ControlSocket) -> None:
        self._control = control
        self._kernels: dict[int, children.Kernel] = {}  # by pid, until reaped
        self._ending: list[children.Kernel] = []  # reaped; their processes may still run
        self._preload: list[str] = []
        self._preload_failures: list[dict[str, str]] = []
        self._stub_dir: str | None = None
        self._entrance: Entrance | None = None
        self._brancher: Brancher | None = None
        self._ended = False
        self._open_files = 0
        self._wakeup, self._wakeup_writer = socket.socketpair()

    # Start

    def run(self) -> process.Forked | None:
        # The directory where we were started may not exist any more. Or it is a workspace, where
        # imported modules would read a cell's files (matplotlibrc).
        os.chdir("/")
        linux.become_subreaper()
        self._open_files = process.allow_many_files()
        self._catch_signals()
        try:
            configured = self._configure()
        except Exception as error:
            traceback.print_exc()
            self._control.send({"op": "failed", "error": shorten(describe(error)), "missing": []})
            return None
        if not configured:
            return None
        self._control.send(
            {
                "op": "ready",
                "version": VERSION,
                "python": platform.python_version(),
                "ipython": sys.modules["IPython"].__version__,
                "executable": sys.executable,
            }
        )
        # A packet has a limit, so of dozens of failed modules only the first ones are reported.
        self._control.send({"op": "preloaded", "failed": self._preload_failures[:20]})
        return self._loop()

    def _configure(self) -> bool:
        packet = self._control.receive()
        if packet is None:
            return False
        message, fds = packet
        close_all(fds)
        if message.get("op") != "configure" or message.get("version") != VERSION:
            raise ValueError(f"the first message must be configure, version {VERSION}")
        interpreter.set_up(message.get("site_packages"))
        interpreter.keep_flags_from_children()
        missing = interpreter.missing()
        if missing:
            names = " and ".join(missing)
            error = f"{sys.executable} has no {names}"
            self._control.send({"op": "failed", "error": error, "missing": missing})
            return False
        self._stub_dir = message.get("stub_dir")
        if message.get("entrance"):
            self._entrance = Entrance(message["entrance"])
        if message.get("branching"):
            self._brancher = Brancher(message["branching"])
        os.environ.update(warmup.ENVIRONMENT)
        self._shell = warmup.make_shell()
        # The user's modules are preloaded before the first kernel. Our own may be preloaded later.
        for name in message.get("preload") or []:
            self._preload_module(name)
        self._preload = list(warmup.ALWAYS_PRELOADED)
        return True

    def _catch_signals(self) -> None:
        # The core handles Ctrl-C on the user's terminal.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(REPETITION, signal.SIG_IGN)  # until a kernel has its handler
        signal.signal(signal.SIGCHLD, _do_nothing)
        for end in (self._wakeup, self._wakeup_writer):
            end.setblocking(False)
        signal.set_wakeup_fd(self._wakeup_writer.fileno(), warn_on_full_buffer=False)

    def _on_sigterm(self, *_: Any) -> None:
        self._ended = True

    # Loop

    def _loop(self) -> process.Forked | None:
        signal.signal(signal.SIGTERM, self._on_sigterm)
        poll = select.poll()
        poll.register(self._control.fileno(), select.POLLIN)
        poll.register(self._wakeup.fileno(), select.POLLIN)
        while not self._ended:
            # While there is something to preload, check for requests without waiting.
            events = poll.poll(0 if self._preload else None)
            if not events:
                self._preload_next()
                continue
            ready = [fd for fd, _ in events]
            if self._wakeup.fileno() in ready:
                self._drain_wakeup()
                self._reap()
            if self._control.fileno() in ready:
                forked = self._serve_packet()
                if forked is not None:
                    return forked
        children.kill_everything()
        return None

    def _drain_wakeup(self) -> None:
        try:
            while self._wakeup.recv(4096):
                pass
        except BlockingIOError:
            pass

    def _preload_module(self, name: str) -> None:
        error = warmup.preload(name, self._shell)
        if error is not None:
            self._preload_failures.append({"module": shorten(name), "error": shorten(error)})

    def _preload_next(self) -> None:
        self._preload_module(self._preload.pop(0))
        if not self._preload:
            warmup.settle()

    def _serve_packet(self) -> process.Forked | None:
        packet = self._control.receive()
        if packet is None:
            self._ended = True
            return None
        message, fds = packet
        try:
            op = message.get("op")
            if op == "fork":
                is_sandboxed, is_command = message.get("sandbox"), message.get("command")
                return self._fork(message["id"], fds, bool(is_sandboxed), bool(is_command))
            if op == "kill":
                self._kill(message["id"])
            if op == "pipes":
                self._add_pipes(message["id"], message["inodes"])
            if op == "adopt":
                self._adopt(message["id"], message["pid"], message["inodes"])
            return None
        finally:
            # The child has its own copies, or the packet needs none.
            close_all(fds)

    # Kernels

    def _fork(
        self, kernel_id: int, fds: list[int], is_sandboxed: bool, is_command: bool
    ) -> process.Forked | None:
        try:
            (_, stdout, stderr), sandbox = fds[:3], fds[3:]
            pipes = {children.pipe_name(stdout), children.pipe_name(stderr)}
            parent = None if is_sandboxed else os.getpid()
            flush_own_output()
            if not is_sandboxed:
                pid = os.fork()
            elif self._entrance is not None:
                pid = self._entrance.fork(*sandbox)
            else:
                raise ValueError("this forkserver was started without sandbox support")
        except (OSError, TypeError, ValueError) as error:
            self._control.send(
                {"op": "fork_failed", "id": kernel_id, "error": shorten(describe(error))}
            )
            return None
        if pid == 0 and is_command:
            self._become_command(parent, fds)
        if pid == 0:
            return self._become_kernel(kernel_id, parent, fds)
        self._take_kernel(kernel_id, pid, os.pidfd_open(pid), pipes, is_command)
        return None

    def _take_kernel(
        self, kernel_id: int, pid: int, pidfd: int, pipes: set[str], is_command: bool = False
    ) -> None:
        try:
            self._control.send({"op": "forked", "id": kernel_id, "pid": pid}, [pidfd])
        finally:
            os.close(pidfd)
            self._kernels[pid] = children.Kernel(
                kernel_id, pid, linux.oom_kill_count(), pipes, is_command=is_command
            )

    def _adopt(self, kernel_id: int, pid: int, inodes: list[int]) -> None:
        """A kernel has forked a branch of itself, which is our child."""
        try:
            if pid in self._kernels:
                raise ValueError(f"process {pid} is a kernel already")
            # Fails unless it is our child. Then the pid is its own until we reap it.
            os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            pidfd = os.pidfd_open(pid)
        except (OSError, ValueError) as error:
            self._control.send(
                {"op": "fork_failed", "id": kernel_id, "error": shorten(describe(error))}
            )
            return
        self._take_kernel(kernel_id, pid, pidfd, {f"pipe:[{inode}]" for inode in inodes})

    def _become_command(self, parent: int | None, fds: list[int]) -> NoReturn:
        try:
            signal.set_wakeup_fd(-1)
            side_command.execute(parent, self._open_files, *fds[:3])
        finally:
            os._exit(side_command.NOT_EXECUTED)

    def _become_kernel(self, kernel_id: int, parent: int | None, fds: list[int]) -> process.Forked:
        try:
            signal.set_wakeup_fd(-1)
            # All descriptors are closed below. These objects must not close numbers that are used
            # again.
            self._control.detach()
            self._wakeup.detach()
            self._wakeup_writer.detach()
            forked = process.become_kernel(kernel_id, parent, self._open_files, *fds[:3])
            fds.clear()
            forked.shell, forked.stub_dir = self._shell, self._stub_dir
            forked.brancher = self._brancher
            return forked
        except BaseException as error:
            report_failure(fds, error)
            os._exit(1)

    def _kill(self, kernel_id: int) -> None:
        for kernel in self._kernels.values():
            if kernel.id == kernel_id:
                kernel.was_killed = True
                children.kill_group(kernel)

    def _add_pipes(self, kernel_id: int, inodes: list[int]) -> None:
        for kernel in self._kernels.values():
            if kernel.id == kernel_id:
                kernel.pipes.update(f"pipe:[{inode}]" for inode in inodes)

    def _reap(self) -> None:
        while True:
            try:
                dead = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            except ChildProcessError:
                break
            if dead is None:
                break
            kernel = self._kernels.pop(dead.si_pid, None)
            if kernel is not None and not kernel.is_command:
                children.kill_group(kernel)  # its pid is still valid: it is not reaped yet
            _, status = os.waitpid(dead.si_pid, 0)
            if kernel is not None:
                kernel.status = status
                self._ending.append(kernel)
        self._end_kernels()

    def _end_kernels(self) -> None:
        """Kills what ended kernels left behind, and reports kernels that left nothing."""
        for kernel in list(self._ending):
            # What a command leaves behind belongs to the kernel whose id it has.
            leftovers = (
                []
                if kernel.is_command
                else [pid for pid in our_orphans(self._kernels) if self._is_leftover(pid, kernel)]
            )
            for pid in leftovers:
                children.kill(pid)
            if not leftovers:  # otherwise the next SIGCHLD leads here again
                self._ending.remove(kernel)
                self._report_exit(kernel)

    def _is_leftover(self, pid: int, kernel: children.Kernel) -> bool:
        # If there is only one kernel, a process of unknown origin is taken for its own.
        alone = not self._kernels and self._ending == [kernel]
        return alone or children.belongs_to(pid, kernel)

    def _report_exit(self, kernel: children.Kernel) -> None:
        status = kernel.status or 0
        by_sigkill = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
        oom_kill = (
            by_sigkill and not kernel.was_killed and linux.oom_kill_count() > kernel.oom_kills
        )
        self._control.send(
            {"op": "exited", "id": kernel.id, "status": status, "oom_kill": oom_kill}
        )


def our_orphans(kernels: dict[int, children.Kernel]) -> list[int]:
    return [pid for pid in children.our_children() if pid not in kernels]


def describe(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"


def report_failure(fds: list[int], error: BaseException) -> None:
    """Writes the error to the pipe that will be, or already is, the kernel's stderr."""
    for fd in (*fds[2:3], 2):
        try:
            os.write(fd, f"ipybox kernel: {describe(error)}\n".encode())
            return
        except OSError:
            continue


def flush_own_output() -> None:
    """Flushes the forkserver's buffers. Otherwise each child would write their content again."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            pass


def _do_nothing(*_: Any) -> None:
    """SIGCHLD's handler: it is set so that Python writes a byte to the wake-up socket."""
