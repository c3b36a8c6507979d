# SPDX-License-Identifier: Apache-2.0
"""Forks a branch of this kernel: a second kernel with the same state, between two cells.

One call in C does the fork (src/sandbox/linux/init/branch.c). The branch is a child of the
forkserver or, in a sandbox, of pid 1, so user code here does not see it. A parked copy waits in
that call, and returns only in branches of it.

What a fork would break without an error is refused (`find_reasons`), or mended in the branch
(`Mends`). What both share or the branch lacks is a warning (`find_warnings`).
"""

from __future__ import annotations

import asyncio
import atexit
import ctypes
import errno
import fcntl
import os
import random
import re
import signal
import stat
import sys
import threading
import time
import weakref
from collections.abc import Iterator
from types import FrameType
from typing import TYPE_CHECKING, Any

from . import event_loop, linux
from .pipes import descriptors_of

if TYPE_CHECKING:
    from .process import Links

# Threads of a pool become idle some microseconds after the last result was delivered.
IDLE_TIMEOUT_S = 0.2
# The system replaces the branch's parent when the middle process has ended.
PARENT_TIMEOUT_S = 5.0
MAX_TEXTS = 20
# Linux allows 16 domains of Landlock inside each other, and the sandbox has the first one.
MAX_DEPTH_IN_SANDBOX = 15
MAX_TEXT = 300
OMP_PAUSE_HARD = 2
TQDM_MONITOR = "tqdm._monitor"
# Native threads of libraries that hang in a branch, by their names. (polars has another thread as
# soon as it is imported, "polars-ooc-clea", of which nothing waits.)
HANGING_THREADS = {
    re.compile(r"polars-\d"): "polars has run a parallel query, and its threads cannot be forked"
}
TIMERS = {
    signal.ITIMER_REAL: "ITIMER_REAL",
    signal.ITIMER_VIRTUAL: "ITIMER_VIRTUAL",
    signal.ITIMER_PROF: "ITIMER_PROF",
}


class Refused(Exception):
    """The kernel cannot be branched now. `reasons` says why, a text each."""

    def __init__(self, reasons: list[str]) -> None:
        super().__init__("; ".join(reasons))
        self.reasons = reasons


class _Port(ctypes.Structure):
    _fields_ = [("fd", ctypes.c_int), ("stream", ctypes.c_int)]


class Park(ctypes.Structure):
    """IpbPark in branch.c."""

    _fields_ = [
        ("fds", ctypes.c_int * 3),
        ("wire", ctypes.c_int),
        ("n_ports", ctypes.c_int),
        ("parent", ctypes.c_int),
        ("is_too_deep", ctypes.c_int),
        ("is_restored", ctypes.c_int),
        ("ports", ctypes.POINTER(_Port)),
        ("environment", ctypes.c_void_p),
        ("environment_size", ctypes.c_size_t),
    ]


def make_park(fds: list[int], links: Links, parent: int | None, depth: int) -> Park:
    marks = (links.stdout_marks, links.stderr_marks)
    ports = [_Port(fd, stream + 1) for stream in (0, 1) for fd in descriptors_of(marks[stream])]
    start, end = linux.environment_block()
    return Park(
        fds=(ctypes.c_int * 3)(*fds),
        wire=links.wire,
        n_ports=len(ports),
        parent=parent or 0,
        is_too_deep=depth >= MAX_DEPTH_IN_SANDBOX,
        ports=(_Port * len(ports))(*ports),
        environment=start,
        environment_size=end - start,
    )


class Brancher:
    def __init__(self, library: str) -> None:
        # Not CDLL: like os.fork(), the call must keep the GIL.
        loaded = ctypes.PyDLL(library)
        self._fork, self._park = loaded.ipb_branch_fork, loaded.ipb_branch_park
        self._fork.argtypes = [ctypes.c_int]
        self._park.argtypes = [ctypes.POINTER(Park)]

    def fork(self, is_confined: bool) -> int:
        """Like os.fork(), but the branch is not our child."""
        return self._call(self._fork, is_confined)

    def park(self, park: Park) -> int:
        """Forks a parked copy. It returns 0 in branches of that, which `park` describes then."""
        return self._call(self._park, ctypes.byref(park))

    def _call(self, function: Any, argument: Any) -> int:
        ctypes.pythonapi.PyOS_BeforeFork()
        pid: int = function(argument)
        if pid == 0:
            ctypes.pythonapi.PyOS_AfterFork_Child()
            return 0
        ctypes.pythonapi.PyOS_AfterFork_Parent()
        if pid == -errno.EAGAIN:
            raise Refused(["the system refuses to fork: the limit of processes is reached"])
        if pid < 0:
            raise Refused([f"the system refuses to fork: {os.strerror(-pid)}"])
        return pid


# Reasons to refuse


def find_reasons(files: str | None) -> list[str]:
    """Why a branch would hang, or would lose work, without an error.

    @files: the directory whose files are restored with the branch, if it is a checkpoint.
    """
    reasons = [*_busy_threads(), *_hanging_threads(), *_devices()]
    if files is not None:
        reasons += _files_in_use(files)
    return [_clip(reason) for reason in reasons[:MAX_TEXTS]]


def _files_in_use(directory: str) -> Iterator[str]:
    """What a restored kernel would continue to write, although the file is another one then."""
    start = directory.rstrip("/") + "/"
    for target in sorted({t for fd, t in _descriptors() if t.startswith(start) and _writes(fd)}):
        yield f"the file {target[len(start) :]} is open for writing: close it first"
    for path in sorted(_shared_maps()):
        if path.startswith(start):
            yield f"the file {path[len(start) :]} is mapped as shared: close the mapping first"


def _writes(fd: int) -> bool:
    try:
        flags = fcntl.fcntl(fd, fcntl.F_GETFL)
    except OSError:
        return False
    return flags & os.O_ACCMODE != os.O_RDONLY and not flags & os.O_PATH and _is_file(fd)


def _shared_maps() -> set[str]:
    """Files that are mapped as shared, for writing. A map needs no descriptor."""
    with open("/proc/self/maps", errors="surrogateescape") as file:
        fields = [line.rstrip("\n").split(maxsplit=5) for line in file]
    return {each[5] for each in fields if len(each) == 6 and each[1] == "rw-s"}


def _busy_threads() -> Iterator[str]:
    idle = _idle_workers()
    for thread in threading.enumerate():
        if thread is threading.main_thread() or thread in idle or _is_harmless(thread):
            continue
        if isinstance(thread, threading._DummyThread):
            continue  # C code started it, and it may have ended
        yield _describe_thread(thread)


def _describe_thread(thread: threading.Thread) -> str:
    module = _module_of(thread)
    if module.startswith("multiprocessing.pool"):
        return "a multiprocessing pool is open: close and join it first"
    if module.startswith("concurrent.futures.process"):
        return "a ProcessPoolExecutor is open: shut it down first"
    if module.startswith("concurrent.futures.thread"):
        return f"the thread {thread.name} of a ThreadPoolExecutor has work: wait until it is done"
    return f"the thread {thread.name} runs: join it first, or end it"


def _module_of(thread: threading.Thread) -> str:
    target = getattr(thread, "_target", None)
    own = type(thread).__module__
    return str(getattr(target, "__module__", None) or "") if own == "threading" else own


def _is_harmless(thread: threading.Thread) -> bool:
    """Threads without work of their own that the branch starts again, or does not need."""
    module = _module_of(thread)
    if module.startswith("joblib.externals.loky"):
        return not _is_loky_busy()
    return module == TQDM_MONITOR


def _pools() -> dict[Any, list[threading.Thread]]:
    """The open ThreadPoolExecutors with their threads."""
    module = sys.modules.get("concurrent.futures.thread")
    pools: dict[Any, list[threading.Thread]] = {}
    for thread in list(module._threads_queues) if module is not None else []:
        arguments = getattr(thread, "_args", None) or (None,)
        pool = arguments[0]() if isinstance(arguments[0], weakref.ref) else None
        if pool is not None and thread.is_alive():
            pools.setdefault(pool, []).append(thread)
    return pools


def _idle_workers() -> set[threading.Thread]:
    deadline = time.monotonic() + IDLE_TIMEOUT_S
    while True:
        idle: set[threading.Thread] = set()
        is_busy = False
        frames = sys._current_frames()
        for pool, threads in _pools().items():
            if pool._work_queue.empty() and all(_awaits_work(each, frames) for each in threads):
                idle.update(threads)
            else:
                is_busy = True
        if not is_busy or time.monotonic() > deadline:
            return idle
        time.sleep(0.001)


def _awaits_work(thread: threading.Thread, frames: dict[int, FrameType]) -> bool:
    """By the frame of the pool's loop. (Until Python 3.12 the pool's own count can be too high.)"""
    frame = frames.get(thread.ident or 0)
    loop = sys.modules["concurrent.futures.thread"]._worker.__code__
    return frame is not None and frame.f_code is loop and frame.f_locals.get("work_item") is None


def _loky_executor() -> Any:
    module = sys.modules.get("joblib.externals.loky.reusable_executor")
    return getattr(module, "_executor", None)


def _is_loky_busy() -> bool:
    executor = _loky_executor()
    return executor is None or bool(getattr(executor, "_pending_work_items", True))


def _hanging_threads() -> Iterator[str]:
    found = set()
    for task in os.listdir("/proc/self/task"):
        try:
            with open(f"/proc/self/task/{task}/comm") as file:
                name = file.read().strip()
        except OSError:
            continue  # it has ended
        for pattern, reason in HANGING_THREADS.items():
            if pattern.match(name) and reason not in found:
                found.add(reason)
                yield reason


def _devices() -> Iterator[str]:
    for _, target in _descriptors():
        if target.startswith("/dev/nvidia"):
            yield "CUDA is in use, and a fork cannot use it"
            return
        if target.startswith("anon_inode:[io_uring]"):
            yield "an io_uring is open, which a fork shares with its parent: close it first"
            return


# Warnings


def find_warnings(private_fds: set[int], loop: Any) -> list[str]:
    """What both kernels share from now on, or what the branch will not have.

    @private_fds: the kernel's own descriptors.
    """
    warnings: list[str] = []
    own = {*private_fds, 0, 1, 2, *event_loop.descriptors(loop), *_idle_connections()}
    sockets, files = [], []
    for fd, target in _descriptors():
        if fd in own:
            continue
        if target.startswith("socket:"):
            sockets.append(fd)
        elif _is_file(fd) and not _is_reopened(fd):
            files.append(target)
    if sockets:
        warnings.append(
            f"{len(sockets)} open sockets are shared: use each in one of the kernels only"
        )
    if files:
        warnings.append(
            f"open files are shared, with their positions: {', '.join(sorted(set(files))[:5])}"
        )
    if _has_shared_memory():
        warnings.append("memory that is mapped as shared (mmap) stays shared: both see all writes")
    if linux.has_children():
        warnings.append("child processes belong to the forerunner: the branch cannot wait for them")
    timers = [name for timer, name in TIMERS.items() if signal.getitimer(timer)[0] > 0]
    if timers:
        warnings.append(f"timers are not set in the branch: {', '.join(timers)}")
    tasks = [task for task in asyncio.all_tasks(loop) if not task.done()]
    if tasks:
        warnings.append(f"{len(tasks)} asyncio tasks run on in both kernels")
    return [_clip(warning) for warning in warnings]


def _idle_connections() -> set[int]:
    """Those of the tool channel that wait for a call: a branch closes its copies."""
    client = sys.modules.get("ipybox.tool_exec.client")
    return {each.sock.fileno() for each in client._state.idle} if client is not None else set()


def _descriptors() -> Iterator[tuple[int, str]]:
    for name in os.listdir("/proc/self/fd"):
        try:
            yield int(name), os.readlink(f"/proc/self/fd/{name}")
        except OSError:
            continue  # the one that listed them


def _is_file(fd: int) -> bool:
    try:
        return stat.S_ISREG(os.fstat(fd).st_mode)
    except OSError:
        return False


def _is_reopened(fd: int) -> bool:
    """Whether the branch gets a position of its own: see _reopen_files."""
    try:
        os.close(_open_again(fd))
    except OSError:
        return False
    return True


def _open_again(fd: int) -> int:
    """Opens what a descriptor can only read. Fails for what is open for writing, too."""
    flags = fcntl.fcntl(fd, fcntl.F_GETFL)
    if flags & os.O_ACCMODE != os.O_RDONLY or flags & os.O_PATH:
        raise OSError(errno.EBADF, "not open for reading only")
    return os.open(f"/proc/self/fd/{fd}", flags & ~(os.O_CREAT | os.O_EXCL | os.O_TRUNC))


def _has_shared_memory() -> bool:
    """Whether memory is shared that has no descriptor. Files that are mapped have one."""
    with open("/proc/self/maps", errors="surrogateescape") as file:
        return any(line.split(maxsplit=2)[1] == "rw-s" and "/dev/zero" in line for line in file)


def _clip(text: str) -> str:
    return text if len(text) <= MAX_TEXT else text[:MAX_TEXT] + " …"


# Before the fork, in the forerunner


def pause_openmp() -> None:
    """Ends the idle threads of OpenMP. A region in the branch would wait for them for ever.

    The next region starts them again.
    """
    for path in sorted(_mapped_libraries(("libgomp", "libomp", "libiomp"))):
        try:
            pause = ctypes.CDLL(path, mode=os.RTLD_NOLOAD).omp_pause_resource_all
        except (OSError, AttributeError):
            continue
        pause(OMP_PAUSE_HARD)


def _mapped_libraries(starts: tuple[str, ...]) -> set[str]:
    paths = set()
    with open("/proc/self/maps", errors="surrogateescape") as file:
        for line in file:
            path = line.rstrip("\n").split(maxsplit=5)[5:]
            if path and os.path.basename(path[0]).startswith(starts):
                paths.add(path[0])
    return paths


# In the branch


class Mends:
    """What is noted before the fork and put in order in the branch."""

    def __init__(self, loop: Any) -> None:
        self._loop = loop
        self._pools = list(_pools())
        self._monitors = [t for t in threading.enumerate() if _module_of(t) == TQDM_MONITOR]
        self._random_state = random.getstate()
        self._wakeup_fd = signal.set_wakeup_fd(-1)
        if self._wakeup_fd >= 0:
            signal.set_wakeup_fd(self._wakeup_fd, warn_on_full_buffer=False)

    def apply(self, is_restored: bool) -> None:
        """@is_restored: it takes the place of its forerunner, and so runs its exit handlers."""
        random.setstate(self._random_state)  # os.fork's hooks have seeded it
        event_loop.renew(self._loop, self._wakeup_fd)
        for pool in self._pools:
            _restart_pool(pool)
        _reopen_files()
        _forget_children()
        _forget_loky()
        for monitor in self._monitors:
            monitor.tqdm_cls.monitor = None  # type: ignore[attr-defined]  # the next bar starts one
        if not is_restored:
            _forget_exit_handlers()


def _reopen_files() -> None:
    """Gives files that are open for reading only a position of their own.

    Libraries keep such files, too: matplotlib its fonts, in which it seeks and reads all the time.
    """
    for fd, _ in list(_descriptors()):
        if not _is_file(fd):
            continue
        try:
            own = _open_again(fd)
        except OSError:
            continue  # a warning has said that it is shared
        os.lseek(own, os.lseek(fd, 0, os.SEEK_CUR), os.SEEK_SET)
        os.dup2(own, fd, os.get_inheritable(fd))
        os.close(own)


def _restart_pool(pool: Any) -> None:
    """Its threads are gone: the next call of submit() starts others."""
    module = sys.modules["concurrent.futures.thread"]
    pool._threads.clear()
    pool._idle_semaphore = threading.Semaphore(0)
    pool._shutdown_lock = threading.Lock()
    pool._work_queue = type(pool._work_queue)()
    for thread in list(module._threads_queues):
        if not thread.is_alive():
            module._threads_queues.pop(thread, None)


def _forget_children() -> None:
    """The children of the forerunner are not ours: their numbers mean nothing here."""
    subprocess, process = sys.modules.get("subprocess"), sys.modules.get("multiprocessing.process")
    if subprocess is not None and getattr(subprocess, "_active", None):
        subprocess._active.clear()
    if process is not None:
        process._children.clear()


def _forget_loky() -> None:
    executor: Any = sys.modules.get("joblib.externals.loky.process_executor")
    reusable: Any = sys.modules.get("joblib.externals.loky.reusable_executor")
    if reusable is not None:
        reusable._executor = reusable._executor_kwargs = None
    if executor is not None:
        executor._threads_wakeups.clear()


def _forget_exit_handlers() -> None:
    """The forerunner runs what was registered before: a handler may remove its files."""
    atexit._clear()
    finalize: Any = weakref.finalize
    for info in list(finalize._registry.values()):
        info.atexit = False
    if finalize._registered_with_atexit:
        atexit.register(finalize._exitfunc)
    logging = sys.modules.get("logging")
    if logging is not None:
        atexit.register(logging.shutdown)
    util = sys.modules.get("multiprocessing.util")
    if util is not None:
        atexit.register(util._exit_function)  # it leaves what another process has registered


def await_parent(parent: int) -> bool:
    """Whether @parent has become our parent, which it does when the middle process has ended."""
    deadline = time.monotonic() + PARENT_TIMEOUT_S
    while os.getppid() != parent:
        if time.monotonic() > deadline:
            return False
        os.sched_yield()
    return True
