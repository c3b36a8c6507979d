# SPDX-License-Identifier: Apache-2.0
"""Takes what Linux counts for each user, or for the whole machine, and keeps it until stdin ends.

Arguments: the highest number to take, and the counters. Prints a JSON object in one line: name →
[how many it got, the errno that ended it or "most"].
"""

import array
import ctypes
import errno
import fcntl
import json
import os
import shutil
import signal
import socket
import sys
import tempfile

libc = ctypes.CDLL(None, use_errno=True)
libc.shmat.restype = ctypes.c_void_p

DESCRIPTORS_IN_A_MESSAGE = 253
PIPE_SIZE = 65536
F_GETPIPE_SZ = 1032
RT_SIGNAL = 40
SHM_LOCK = 11
CALLS = {"add_key": 248, "io_setup": 206}
# If each process may take only a part, this many take it together.
MOST_PROCESSES = 100


def check(result):
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return result


pairs = []  # sockets that are kept


# Each returns a function that takes one.


def inotify_instances():
    return lambda: check(libc.inotify_init())


def inotify_watches():
    fd = check(libc.inotify_init())

    def take():
        file, path = tempfile.mkstemp(dir=tempfile.tempdir)
        os.close(file)
        check(libc.inotify_add_watch(fd, path.encode(), 2))

    return take


def timers():
    return lambda: check(libc.timer_create(0, None, ctypes.byref(ctypes.c_int())))


def signals():
    signal.pthread_sigmask(signal.SIG_BLOCK, [RT_SIGNAL])
    return lambda: check(libc.sigqueue(os.getpid(), RT_SIGNAL, ctypes.c_void_p(0)))


def message_queues():
    def take():
        name = f"/ipybox-counters-{os.getpid()}".encode()
        check(libc.mq_open(name, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600, None))
        check(libc.mq_unlink(name))  # it stays as long as the descriptor

    return take


def locked_memory():
    def take():
        segment = check(libc.shmget(0, 65536, 0o1600))
        address = libc.shmat(segment, None, 0)
        result = libc.shmctl(segment, SHM_LOCK, None)
        code = ctypes.get_errno()
        libc.shmctl(segment, 0, None)  # it stays as long as it is attached
        ctypes.set_errno(code)
        if result < 0:
            libc.shmdt(ctypes.c_void_p(address))
        check(result)

    return take


def aio():
    return lambda: check(libc.syscall(CALLS["io_setup"], 1, ctypes.byref(ctypes.c_ulong())))


def keys():
    names = (f"ipybox-counters-{n}".encode() for n in range(10**9))
    return lambda: check(libc.syscall(CALLS["add_key"], b"user", next(names), b"x", 1, -2))


def terminals():
    return lambda: os.open("/dev/ptmx", os.O_RDWR | os.O_NOCTTY)


def descriptors_in_flight():
    rights = array.array("i", [0] * DESCRIPTORS_IN_A_MESSAGE)
    ancillary = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)]
    pairs.append(socket.socketpair())

    def take():
        try:
            pairs[-1][0].sendmsg([b"x"], ancillary, socket.MSG_DONTWAIT)
        except BlockingIOError:
            pairs.append(socket.socketpair())
            pairs[-1][0].sendmsg([b"x"], ancillary, socket.MSG_DONTWAIT)

    return take


def pipes():
    def take():
        if fcntl.fcntl(os.pipe()[0], F_GETPIPE_SZ) < PIPE_SIZE:
            raise OSError(errno.ENOBUFS, "a small one")

    return take


def epoll_watches():
    """Each instance watches each pipe."""
    pipes = [fd for _ in range(200) for fd in os.pipe()]
    event = (ctypes.c_uint32 * 3)(1, 0, 0)
    waiting = []

    def take():
        if not waiting:
            epoll = check(libc.epoll_create1(0))
            waiting.extend((epoll, pipe) for pipe in pipes)
        epoll, pipe = waiting.pop()
        check(libc.epoll_ctl(epoll, 1, pipe, event))

    return take


def processes():
    parent = os.getpid()

    def take():
        if os.fork() == 0:
            die_with(parent)
            stay()

    return take


COUNTERS = {
    take.__name__.replace("_", " "): take
    for take in (
        inotify_instances,
        inotify_watches,
        timers,
        signals,
        message_queues,
        locked_memory,
        aio,
        keys,
        terminals,
        descriptors_in_flight,
        pipes,
        epoll_watches,
        processes,
    )
}


def die_with(parent):
    check(libc.prctl(1, signal.SIGKILL, 0, 0, 0))
    if os.getppid() != parent:
        os._exit(1)


def stay():
    while True:
        signal.pause()


def take_all(name, most):
    """Returns [number, errno]."""
    number = 0
    try:
        take = COUNTERS[name]()
        while number < most:
            take()
            number += 1
    except OSError as error:
        return number, errno.errorcode[error.errno]
    return number, "most"


def take_in_a_child(name, most):
    ours, theirs = os.pipe()
    parent = os.getpid()
    pid = os.fork()
    if pid == 0:
        die_with(parent)
        os.write(theirs, json.dumps(take_all(name, most)).encode() + b"\n")
        stay()
    os.close(theirs)
    with os.fdopen(ours) as pipe:
        return pid, *json.loads(pipe.readline())


def main():
    most = int(sys.argv[1])
    tempfile.tempdir = tempfile.mkdtemp()
    children, results = [], {}
    for name in sys.argv[2:]:
        total, end = 0, "EMFILE"
        n_children = 0
        # A process that may open no more files is followed by another one.
        while end == "EMFILE" and total < most and n_children < MOST_PROCESSES:
            pid, number, end = take_in_a_child(name, most - total)
            children.append(pid)
            n_children += 1
            total += number
            if number == 0:
                break
        results[name] = total, end
    print(json.dumps(results), flush=True)
    sys.stdin.read()
    for pid in children:
        os.kill(pid, signal.SIGKILL)
    for pid in children:
        os.waitpid(pid, 0)
    shutil.rmtree(tempfile.tempdir)


main()
