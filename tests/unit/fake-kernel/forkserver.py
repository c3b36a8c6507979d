# SPDX-License-Identifier: Apache-2.0
"""A forkserver and kernels for test-kernel-life and test-kernel-native, which misbehave on request.

They use the real protocol. The first name of the preload list selects what the forkserver does
(`Forkserver.mode`). A kernel runs the code of a cell with `exec`. The functions in `Kernel.names`
let that code send anything on the kernel's channels.
"""

import array
import ctypes
import json
import os
import select
import signal
import socket
import struct
import sys
import time

HELLO, DISPLAY, UPDATE, CLEAR, RESULT, ERROR, DONE, REPLY = range(64, 72)
STREAM = 74


def send(control, fds=(), **message):
    control.sendmsg(
        [json.dumps(message).encode()],
        [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else [],
    )


def receive(control):
    data, ancillary, _, _ = control.recvmsg(65536, socket.CMSG_SPACE(32))
    fds = array.array("i")
    for _, _, content in ancillary:
        fds.frombytes(content)
    return (json.loads(data) if data else None), list(fds)


class Forkserver:
    def __init__(self):
        self.control = socket.socket(fileno=3)
        self.pids = {}
        self.mode = ""

    def run(self):
        configure, _ = receive(self.control)
        self.mode = (configure["preload"] or ["normal"])[0]
        wakeup, writer = socket.socketpair()
        writer.setblocking(False)
        signal.set_wakeup_fd(writer.fileno())
        signal.signal(signal.SIGCHLD, lambda *_: None)
        ctypes.CDLL(None).prctl(36, 1)  # PR_SET_CHILD_SUBREAPER
        if self.mode == "exit":
            print("no way")
            sys.exit(3)
        if self.mode == "missing":
            send(self.control, op="failed", error="x", missing=["IPython", "pydantic"])
            sys.exit(0)
        if self.mode == "failed":
            send(self.control, op="failed", error="it is broken", missing=[])
            sys.exit(0)
        if self.mode == "garbage":
            self.control.send(b"{garbage")
        if self.mode not in ("garbage", "silent"):
            send(self.control, op="ready", version=1, python="3", ipython="0", executable="x")
        if self.mode == "preload-fails":
            send(self.control, op="preloaded", failed=[{"module": "m", "error": "E: no\ud800"}])
        while True:
            ready, _, _ = select.select([self.control, wakeup], [], [])
            if wakeup in ready:
                wakeup.recv(4096)
                self.reap()
            if self.control in ready:
                message, fds = receive(self.control)
                if message is None:
                    break
                self.serve(message, fds)
                for fd in fds:
                    os.close(fd)
        for pid in self.pids:
            os.kill(pid, signal.SIGKILL)
        while self.pids:
            self.reap(0)

    def reap(self, options=os.WNOHANG):
        while True:
            try:
                pid, status = os.waitpid(-1, options)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if pid in self.pids:
                id = self.pids.pop(pid)
                if self.mode != "no-exit":
                    try:
                        send(
                            self.control,
                            op="exited",
                            id=id,
                            status=status,
                            oom_kill=self.mode == "oom",
                        )
                    except OSError:
                        pass
                if not self.pids:
                    return

    def serve(self, message, fds):
        if message["op"] == "kill":
            for pid, id in self.pids.items():
                if id == message["id"]:
                    os.kill(pid, signal.SIGKILL)
            return
        if self.mode == "no-fork":
            send(self.control, op="fork_failed", id=message["id"], error="no more")
            return
        if self.mode == "die-on-fork":
            os.kill(os.getpid(), signal.SIGKILL)
        pid = os.fork()
        if pid == 0:
            ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
            os.setsid()
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            wire, out, err = (os.dup(fd) for fd in fds)
            os.dup2(out, 1)
            os.dup2(err, 2)
            self.control.close()
            for fd in fds:
                os.close(fd)
            if self.mode == "die-before-start":
                os._exit(5)
            Kernel(wire, out, err, self.mode).run()
            os._exit(0)
        self.pids[pid] = message["id"]
        pidfd = os.pidfd_open(pid)
        if self.mode == "die-before-start":
            # Close the kernel's end of the wire before the core writes to it.
            os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
            while fds:
                os.close(fds.pop())
        send(self.control, [pidfd], op="forked", id=message["id"], pid=pid)
        os.close(pidfd)


class Kernel:
    def __init__(self, wire, out, err, mode):
        self.wire, self.marks, self.mode = wire, (out, err), mode
        self.number = 0
        self.last = None
        self.cell = 0
        self.idle = True
        self.interrupted = 0
        self.names = {
            "out": lambda text: self.write(1, text),
            "err": lambda text: self.write(2, text),
            "send": self.send,
            "raw": lambda data: self.write_all(self.wire, data),
            "display": lambda text, **more: self.send(DISPLAY, data={"text/plain": text}, **more),
            "stream": lambda text, cell, name="stdout": self.send(
                STREAM, cell=cell, name=name, text=text
            ),
            "CLEAR": CLEAR,
            "ERROR": ERROR,
            "display_nothing": lambda **more: self.send(DISPLAY, data={}, **more),
            "result": lambda text: self.send(
                RESULT, execution_count=self.cell, data={"text/plain": text}, metadata={}
            ),
            "done": self.done,
            "kernel": self,
            "os": os,
            "signal": signal,
            "time": time,
        }

    def run(self):
        signal.signal(signal.SIGINT, self.on_sigint)
        signal.signal(signal.SIGRTMIN + 6, self.on_repetition)
        kind, start = self.read_frame()
        assert kind == 1, kind
        self.start = start
        os.chdir(start["cwd"])
        self.key = bytes.fromhex(start["key"])
        if self.mode == "no-hello":
            print("starting …", flush=True)
            time.sleep(1000)
        if self.mode == "die-at-start":
            print("cannot start", file=sys.stderr, flush=True)
            os._exit(4)
        if self.mode == "bad-hello":
            self.send(DONE, cell=0, status="ok", execution_count=0, cwd="/")
        if self.mode == "chatty":
            print("hello", flush=True)
        self.send(HELLO, version=1, pid=os.getpid())
        while True:
            kind, message = self.read_frame()
            if kind == 3:
                if "at_exit" in self.names:
                    self.names["at_exit"]()
                os._exit(0)
            self.execute(message)

    def on_sigint(self, *_):
        if not self.idle:
            self.interrupted = True
            raise KeyboardInterrupt

    def on_repetition(self, *_):
        if not self.interrupted:
            self.on_sigint()

    def execute(self, message):
        self.cell, self.is_done = message["cell"], False
        status = "ok"
        try:
            self.idle = False
            self.interrupted = False
            # A message of a comm has the code as its data.
            exec(message["comm"]["data"] if "comm" in message else message["code"], self.names)
            self.idle = True
        except BaseException as error:
            self.idle = True
            status = "interrupted" if isinstance(error, KeyboardInterrupt) else "error"
            name = type(error).__name__
            self.send(ERROR, ename=name, evalue=str(error), traceback=f"Traceback: {error}")
        if not self.is_done:
            self.done(status)

    def done(self, status="ok", **fields):
        self.send(DONE, status=status, execution_count=self.cell, cwd=os.getcwd(), **fields)
        self.is_done = True
        if not fields:
            self.cell = 0

    def mark(self):
        self.number += 1
        self.last = None
        for fd in self.marks:
            self.write_all(fd, b"\0" + self.key + struct.pack("<I", self.number) + b"\n")

    def write(self, fd, text):
        if self.last not in (None, fd):
            self.mark()
        self.last = fd
        self.write_all(fd, text if isinstance(text, bytes) else text.encode())

    def send(self, kind, /, **fields):
        self.mark()
        payload = json.dumps({"cell": self.cell, **fields}).encode()
        self.write_all(
            self.wire, struct.pack("<IBI", len(payload) + 5, kind, self.number) + payload
        )

    def write_all(self, fd, data):
        while data:
            data = data[os.write(fd, data) :]

    def read_all(self, size):
        data = b""
        while len(data) < size:
            more = os.read(self.wire, size - len(data))
            if not more:
                os._exit(0)
            data += more
        return data

    def read_frame(self):
        length, kind, _ = struct.unpack("<IBI", self.read_all(9))
        return kind, json.loads(self.read_all(length - 5))


Forkserver().run()
