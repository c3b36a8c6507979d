# SPDX-License-Identifier: Apache-2.0
"""The kernel process: takes frames from the wire and runs cells.

Everything runs in an asyncio loop in the main thread. Tasks of user code continue while the kernel
waits for the next cell, and while an asynchronous cell runs. A synchronous cell blocks the loop.
"""

from __future__ import annotations

import array
import asyncio
import atexit
import faulthandler
import os
import signal
import socket
import sys
import tempfile
import time
from collections import deque
from collections.abc import Iterator
from typing import Any

from . import (
    application_packages,
    blas,
    branching,
    comms,
    current_cell,
    event_loop,
    inspection,
    interpreter,
    jupyter_shell,
    linux,
    mime,
    plots,
    randomness,
    rehearsal,
    tool_packages,
    tracebacks,
    user_processes,
    wire,
)
from .cells import CellRunner
from .children import KERNEL_ID
from .interrupts import Interrupts
from .output import Output
from .process import Forked
from .shell_rules import ShellRules
from .stdin import Stdin

FDS_SIZE = socket.CMSG_SPACE(3 * 4)  # of two pipes, or of a wire and two pipes
READ_SIZE = 1 << 16  # for larger buffers malloc would map new memory at each read
KEY_SIZE = 12
TOOL_TOKEN = "IPYBOX_TOOL_TOKEN"
# The loop may fail this often without running once.
MAX_FAILURES = 100
# Set unless the core has set them: the output is not shown on a terminal.
ENVIRONMENT = {"PAGER": "cat", "GIT_PAGER": "cat"}
PLAIN_ENVIRONMENT = {"TERM": "dumb", "NO_COLOR": "1"}  # likewise, unless the client is rich


def run(forked: Forked) -> None:
    """Runs a kernel until the core asks it to end. Does not return."""
    Kernel(forked).run()


class KernelEnd(Exception):
    """The kernel cannot continue."""


class Kernel:
    def __init__(self, forked: Forked) -> None:
        self._forked = forked
        self._wire = forked.links.wire
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM, 0, self._wire)
        os.register_at_fork(after_in_child=self._leave_wire)
        self._received_fds: deque[int] = deque()
        self._shell = forked.shell
        self._reader = wire.FrameReader()
        self._waiting: deque[dict[str, Any]] = deque()  # cells
        self._kept: deque[tuple[int, dict[str, Any]]] = deque()  # frames that came during an input
        self._has_run_a_cell = False
        self._failures = 0  # of the loop since it last ran

    def run(self) -> None:
        kind, message = self._read_first_frame()
        if kind != wire.START or message.get("version") != wire.VERSION:
            fail(f"the first frame must be start, version {wire.VERSION}")
        self._start(message)
        self._loop.add_reader(self._wire, self._on_readable)
        self._loop.call_soon(self._take_frames)  # frames that came together with the first one
        while True:
            try:
                self._run_loop()
            except KernelEnd:
                raise
            except BaseException:
                pass  # a second exception came while the first was handled

    def _run_loop(self) -> None:
        """Runs the loop again whenever user code stops it.

        User code can also raise through it, from a task or from a signal handler, which may raise
        again while the first error is reported.
        """
        failure: BaseException | None = None
        while True:
            try:
                if failure is not None:
                    reported, failure = failure, None
                    self._report_background_error(reported)
                self._loop.run_forever()
            except (KeyboardInterrupt, SystemExit):
                pass
            except BaseException as error:
                failure = error
                self._count_failure(error)

    def _count_failure(self, error: BaseException) -> None:
        self._failures += 1
        if self._failures > MAX_FAILURES:
            raise KernelEnd("the event loop cannot run") from error  # its descriptors were closed
        self._loop.call_soon(self._reset_failures)

    def _reset_failures(self) -> None:
        self._failures = 0

    def _report_background_error(self, error: BaseException) -> None:
        """Prints what a signal handler raised while no cell ran, as a late alarm does."""
        tracebacks.remove_our_frames(error)
        text = "\n".join(tracebacks.plain(type(error), error, error.__traceback__))
        self._output.stderr.write(f"while no cell ran:\n{text}\n")

    # Start

    def _read_first_frame(self) -> tuple[int, dict[str, Any]]:
        while True:
            data = self._receive()
            if not data:
                os._exit(0)
            self._reader.feed(data)
            for frame in self._reader.frames():
                return frame

    def _start(self, message: dict[str, Any]) -> None:
        if message.get("rehearse", False):
            rehearsal.run(self._shell, is_whole=False)
        is_rich = message.get("rich", False)
        self._environment = message["env"]
        self._set_environment(message["env"], {} if is_rich else PLAIN_ENVIRONMENT)
        try:
            os.chdir(message["cwd"])
        except OSError as error:
            fail(f"the working directory cannot be entered: {error}")
        self._set_import_path(message.get("path") or [])
        if message.get("packages"):
            application_packages.offer(message["packages"])
        key = bytes.fromhex(message["key"])
        if len(key) != KEY_SIZE:
            fail(f"the key must have {KEY_SIZE} bytes")
        self._output = Output(self._forked.links, key)
        self._output.install_streams()
        faulthandler.enable(2, all_threads=False)
        randomness.reseed(message.get("seed"))
        plots.choose_backend(self._shell)
        self._make_loop(message.get("returns_to_cwd", False))
        self._prepare_shell(message)
        user_processes.watch(self._output)
        current_cell.pass_to_threads()
        user_processes.make_multiprocessing_fork()
        self._interrupts.install()
        self._output.send(wire.HELLO, {"version": wire.VERSION, "pid": os.getpid()})

    def _set_environment(self, environment: dict[str, str], more: dict[str, str]) -> None:
        os.environ.clear()
        os.environ.update(environment)
        for name, value in {**ENVIRONMENT, **more}.items():
            os.environ.setdefault(name, value)
        os.environ[KERNEL_ID] = str(self._forked.id)
        linux.rewrite_environment_block(f"{KERNEL_ID}={self._forked.id}".encode())
        time.tzset()
        tempfile.tempdir = None  # TMPDIR may have changed

    def _set_import_path(self, path: list[str]) -> None:
        sys.argv = [""]
        stub = [self._forked.stub_dir] if self._forked.stub_dir else []
        sys.path[:0] = [*stub, *path, ""]
        if stub:
            tool_packages.watch()
        interpreter.become_kernel()

    def _make_loop(self, returns_to_cwd: bool) -> None:
        self._loop = event_loop.new_event_loop()
        asyncio.set_event_loop(self._loop)
        self._interrupts = Interrupts(self._output, self._loop, self._report_background_error)
        self._interrupts.cell_code = type(self._shell).run_cell_async.__code__
        self._cells = CellRunner(
            self._shell, self._output, self._interrupts, self._loop, self._on_cell_done
        )
        self._cells.returns_to = os.getcwd() if returns_to_cwd else None
        self._stdin = Stdin(self._output, self._interrupts, self._wire, self._receive_answers)

    def _prepare_shell(self, message: dict[str, Any]) -> None:
        shell = self._shell
        if message.get("rich", False):
            jupyter_shell.become_rich(shell)
            self._stdin.has_rich_client = True
        shell.rules = ShellRules(
            message.get("approve_shell_cmds", False), message.get("require_shell_escape", False)
        )
        shell.output, shell.interrupts = self._output, self._interrupts
        comms.install(shell)
        shell.save_sys_module_state()
        shell.home_dir = os.path.expanduser("~")
        shell.starting_dir = os.getcwd()
        shell.history_manager.dir_hist[:] = [shell.starting_dir]
        self._stdin.install()
        sys.unraisablehook = self._interrupts.on_unraisable

    # Frames

    def _on_readable(self) -> None:
        self._read()
        self._take_frames()

    def _read(self) -> None:
        try:
            data = self._receive()
        except BlockingIOError:
            return
        except OSError as error:
            fail(f"the wire is gone: {error}")
        if not data:
            os._exit(1)  # the core has ended
        self._reader.feed(data)

    def _receive(self) -> bytes:
        data, ancillary, _, _ = self._socket.recvmsg(READ_SIZE, FDS_SIZE, socket.MSG_CMSG_CLOEXEC)
        for level, kind, content in ancillary:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                fds = array.array("i")
                fds.frombytes(content[: len(content) - len(content) % fds.itemsize])
                self._received_fds.extend(fds)
        return data

    def _take_frames(self) -> None:
        while self._kept:
            self._take_frame(*self._kept.popleft())
        for kind, message in self._reader.frames():
            self._take_frame(kind, message)

    def _take_frame(self, kind: int, message: dict[str, Any]) -> None:
        if kind in (wire.EXECUTE, wire.COMM_TO_KERNEL):
            self._waiting.append(message)
            self._next_cell()
        elif kind == wire.REQUEST:
            self._answer(message)
        elif kind == wire.SHUTDOWN:
            self._end()
        elif kind in (wire.BRANCH, wire.PARK):
            self._branch(message, kind == wire.PARK)
        elif kind == wire.PIPES:
            self._take_pipes(message["pipes"])
        elif kind != wire.INPUT:  # its request was interrupted
            fail(f"unexpected frame of type {kind}")

    def _receive_answers(self) -> Iterator[dict[str, Any]]:
        """For a cell that waits for input, in which the loop does not run."""
        self._read()
        for kind, message in self._reader.frames():
            if kind == wire.INPUT:
                yield message
                continue
            if not self._kept:
                self._loop.call_soon(self._take_frames)
            self._kept.append((kind, message))

    def _take_pipes(self, has_pipes: bool) -> None:
        fds = [self._received_fds.popleft() for _ in range(2)] if has_pipes else []
        self._output.take_pipes(fds)
        self._next_cell()

    def _next_cell(self) -> None:
        if self._cells.is_busy or not self._waiting or not self._output.has_own_pipes():
            return
        message = self._waiting.popleft()
        if not self._has_run_a_cell:
            self._has_run_a_cell = True
            blas.restore_threads(self._shell.blas_thread_setters)
        self._stdin.is_allowed = message.get("allow_stdin", False)
        if "comm" in message:
            self._start_comm(message)
            return
        self._shell.set_request(message)
        self._cells.start(
            message["cell"],
            message["code"],
            message.get("store_history", True),
            message.get("silent", False),
            message.get("user_expressions") or {},
        )

    def _start_comm(self, frame: dict[str, Any]) -> None:
        message = comms.message_of(frame)
        self._shell.set_comm_message(frame["cell"], message)
        self._cells.start_handlers(frame["cell"], lambda: comms.handle(self._shell, message))

    def _on_cell_done(self) -> None:
        if self._waiting:
            self._loop.call_soon(self._next_cell)  # so that tasks run in between

    def _answer(self, message: dict[str, Any]) -> None:
        reply: dict[str, Any] = {"id": message.get("id")}
        try:
            params = message.get("params") or {}
            result = inspection.answer(self._shell, str(message.get("method")), params)
            reply["result"] = mime.conform_json(result)
            self._output.send(wire.REPLY, reply)
        except (Exception, KeyboardInterrupt) as error:  # also if the reply is too large
            text = tracebacks.clip(tracebacks.text_of(error), tracebacks.MAX_EVALUE)
            self._output.send(
                wire.REPLY, {"id": reply["id"], "error": f"{type(error).__name__}: {text}"}
            )

    # Branches

    def _branch(self, message: dict[str, Any], is_parked: bool) -> None:
        fds = [self._received_fds.popleft() for _ in range(3)]
        reply: dict[str, Any] = {"id": message["id"]}
        if message.get("token") is not None:
            os.environ[TOOL_TOKEN] = message["token"]
            self._environment = {**self._environment, TOOL_TOKEN: message["token"]}
        try:
            reply["warnings"] = self._check_branch(fds, is_parked, message.get("files"))
            pid = self._fork_branch(fds, is_parked)
            if pid == 0:
                return
            reply["pid"] = pid
        except branching.Refused as error:
            reply["reasons"] = error.reasons
        except Exception as error:  # a library, or user code, is not as it should be
            reply["reasons"] = [tracebacks.clip(tracebacks.text_of(error), branching.MAX_TEXT)]
        for fd in fds:
            os.close(fd)
        self._output.send(wire.BRANCHED, reply)

    def _check_branch(self, fds: list[int], is_parked: bool, files: str | None) -> list[str]:
        """Returns warnings."""
        if self._forked.brancher is None:
            raise branching.Refused(["the installation lacks the library ipybox-enter.so"])
        if self._cells.is_busy or self._waiting:
            raise branching.Refused(["a cell runs"])
        is_deepest = self._forked.depth >= branching.MAX_DEPTH_IN_SANDBOX
        if self._forked.parent is None and is_deepest and not is_parked:
            depth = branching.MAX_DEPTH_IN_SANDBOX
            raise branching.Refused([f"in a sandbox branches can be {depth} deep, as this one is"])
        path = os.fsdecode(bytes.fromhex(files)) if files is not None else None
        reasons = branching.find_reasons(path)
        if reasons:
            raise branching.Refused(reasons)
        return branching.find_warnings({*fds, *self._forked.links.fds()}, self._loop)

    def _fork_branch(self, fds: list[int], is_parked: bool) -> int:
        mends = branching.Mends(self._loop)
        branching.pause_openmp()
        forked = self._forked
        park = branching.make_park(fds, forked.links, forked.parent, forked.depth)
        self._output.begin_branch()
        pid = -1
        try:
            if is_parked:
                pid = forked.brancher.park(park)
            else:
                pid = forked.brancher.fork(forked.parent is None)
        finally:
            if pid != 0:
                self._output.is_branching = False
        if pid == 0:
            is_restored = bool(is_parked and park.is_restored)
            try:
                self._become_branch(list(park.fds), mends, is_restored)
            except BaseException as error:
                fail(f"the branch cannot start: {type(error).__name__}: {error}")
        return pid

    def _become_branch(self, fds: list[int], mends: branching.Mends, is_restored: bool) -> None:
        self._output.become_branch(fds)
        os.setsid()
        parent = self._forked.parent
        if parent is not None:
            # Earlier the signal would come when the middle process ends.
            if not branching.await_parent(parent):
                os._exit(1)
            linux.die_with_parent(signal.SIGKILL)
            if os.getppid() != parent:
                os._exit(1)
        mends.apply(is_restored)
        self._reader.clear()
        self._reader = wire.FrameReader()
        self._waiting.clear()
        self._kept.clear()
        kind, message = self._read_first_frame()  # the core has adopted us
        if kind != wire.START or message.get("version") != wire.VERSION:
            fail(f"the first frame must be start, version {wire.VERSION}")
        if not is_restored:
            self._forked.depth += 1
        self._start_branch(message)
        self._loop.call_soon(self._take_frames)

    def _start_branch(self, message: dict[str, Any]) -> None:
        """Of what `start` says only the identity and the seed are new."""
        self._forked.id = message["id"]
        for name, value in message["env"].items():
            if self._environment.get(name) != value:
                os.environ[name] = value
        self._environment = message["env"]
        os.environ[KERNEL_ID] = str(self._forked.id)
        linux.rewrite_environment_block(f"{KERNEL_ID}={self._forked.id}".encode())
        if message.get("seed") is not None:
            randomness.reseed(message["seed"])
        self._output.connect_branch(bytes.fromhex(message["key"]))
        self._output.send(wire.HELLO, {"version": wire.VERSION, "pid": os.getpid()})

    def _leave_wire(self) -> None:
        """In a process that user code forked, which closes the wire itself."""
        if not self._output.is_branching:
            self._socket.detach()

    # End

    def _end(self) -> None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        try:
            atexit._run_exitfuncs()
        except BaseException:
            pass  # Python has printed it
        self._output.flush()
        linux.flush_c_stdout()
        os._exit(0)


def fail(reason: str) -> None:
    """Ends the process, which is how the core learns of the error. Does not return."""
    os.write(2, f"ipybox kernel: {reason}\n".encode())
    os._exit(1)
