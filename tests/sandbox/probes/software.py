# SPDX-License-Identifier: Apache-2.0
"""Real software at work in a sandbox; a script, since the start methods of multiprocessing need
one. The argument names what to do.
"""

import asyncio
import concurrent.futures
import multiprocessing
import os
import pty
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
from pathlib import Path


def square(number):
    return number * number


def put(queue, value):
    queue.put(value)


def use_numpy():
    import numpy

    assert (numpy.ones((300, 300)) @ numpy.ones((300, 300)))[0, 0] == 300


def use_pandas():
    import pandas

    frame = pandas.DataFrame({"a": [1, 2, 3]})
    frame.to_csv("frame.csv")
    assert pandas.read_csv("frame.csv")["a"].sum() == 6


def use_matplotlib():
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    pyplot.plot([1, 2, 3])
    pyplot.savefig("plot.png")
    assert os.path.getsize("plot.png") > 1000


def use_multiprocessing(method):
    context = multiprocessing.get_context(method)
    with context.Pool(2) as pool:
        assert pool.map(square, range(4)) == [0, 1, 4, 9]
    queue = context.Queue()
    process = context.Process(target=put, args=(queue, "put"))
    process.start()
    assert queue.get(timeout=100) == "put"
    process.join(30)
    assert process.exitcode == 0
    with context.Manager() as manager:
        values = manager.dict(a=1)
        process = context.Process(target=values.__setitem__, args=("b", 2))
        process.start()
        process.join(30)
        assert dict(values) == {"a": 1, "b": 2}
    with concurrent.futures.ProcessPoolExecutor(2, mp_context=context) as executor:
        assert list(executor.map(square, [3])) == [9]
    from multiprocessing import shared_memory

    memory = shared_memory.SharedMemory(create=True, size=4096)
    memory.buf[0] = 7
    memory.close()
    memory.unlink()


def use_subprocess():
    assert (
        subprocess.run("echo $((6 * 7)) | cat", shell=True, capture_output=True, text=True).stdout
        == "42\n"
    )
    child = subprocess.Popen(["sleep", "1000"])
    child.send_signal(signal.SIGTERM)
    assert child.wait(30) == -signal.SIGTERM


async def talk():
    async def serve(reader, writer):
        writer.write(await reader.readline())
        writer.close()

    for server, connect in (
        (await asyncio.start_server(serve, "127.0.0.1", 0), asyncio.open_connection),
        (await asyncio.start_unix_server(serve, "asyncio.sock"), asyncio.open_unix_connection),
        (await asyncio.start_unix_server(serve, "/tmp/asyncio.sock"), asyncio.open_unix_connection),
    ):
        name = server.sockets[0].getsockname()
        reader, writer = await (connect(*name) if isinstance(name, tuple) else connect(name))
        writer.write(b"hello\n")
        assert await reader.readline() == b"hello\n"
        writer.close()
        server.close()
        if isinstance(name, str):
            Path(name).unlink(missing_ok=True)  # since Python 3.13 the server has done it
    process = await asyncio.create_subprocess_exec("cat", stdin=-1, stdout=-1)
    assert (await process.communicate(b"text"))[0] == b"text"
    assert await asyncio.to_thread(square, 5) == 25


def use_asyncio():
    asyncio.run(talk())


def use_pty():
    pid, fd = pty.fork()
    if pid == 0:
        os.execlp("sh", "sh", "-c", "tty; stty size; exit 3")
    text = b""
    while True:
        try:
            data = os.read(fd, 1000)
        except OSError:
            break
        if not data:
            break
        text += data
    assert text.startswith(b"/dev/pts/"), text
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 3


def use_sqlite():
    for path in ("data.db", "/tmp/data.db"):
        with sqlite3.connect(path) as connection:
            connection.execute("PRAGMA journal_mode=WAL")
            connection.execute("CREATE TABLE t (x)")
            connection.executemany("INSERT INTO t VALUES (?)", [(n,) for n in range(100)])
        assert sqlite3.connect(path).execute("SELECT sum(x) FROM t").fetchone() == (4950,)


def use_git():
    def git(*words):
        return subprocess.run(
            ["git", "-C", "repository", *words], check=True, capture_output=True, text=True
        ).stdout

    os.mkdir("repository")
    git("init", "--quiet", "--template=")
    open("repository/file", "w").write("text")
    git("add", "file")
    git("-c", "user.name=a", "-c", "user.email=a@b", "commit", "-m", "first", "--quiet")
    assert "first" in git("log", "--oneline")
    subprocess.run(["git", "clone", "--quiet", "--template=", "repository", "clone"], check=True)
    assert os.path.exists("clone/file")


def use_threads():
    results = []
    threads = [threading.Thread(target=lambda: results.append(sum(range(1000)))) for _ in range(50)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 50


def use_sockets():
    for family in (socket.AF_INET, socket.AF_INET6):
        with socket.create_server(("", 0), family=family) as server:
            with socket.create_connection(("localhost", server.getsockname()[1])) as client:
                client.send(b"x")
                assert server.accept()[0].recv(1) == b"x"
    left, right = socket.socketpair()
    left.send(b"x")
    assert right.recv(1) == b"x"


def use_temporary_files():
    import tempfile

    with tempfile.NamedTemporaryFile() as file:
        assert file.name.startswith("/tmp/")
    subprocess.run(["sh", "-c", "mktemp"], check=True, capture_output=True)


if __name__ == "__main__":
    name, *args = sys.argv[1:]
    globals()["use_" + name](*args)
    print("works")
