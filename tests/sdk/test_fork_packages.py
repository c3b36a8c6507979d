# SPDX-License-Identifier: Apache-2.0
"""What packages do when their session is forked, a row for each. docs/branches.md has the results.

Rows for packages that .venv has always run. `make verify-long` sets IPYBOX_TEST_PACKAGES=1: then
all rows run, with the packages of tests/requirements-packages.txt, without a sandbox and in one.

Each row computes the same before the fork, in the first kernel and its branches after it, and in
a branch of a branch. A cell that hangs fails by its timeout.
"""

from __future__ import annotations

import http.server
import os
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import harness
import pytest
from ipybox import CodeExecutor

ALL = os.environ.get("IPYBOX_TEST_PACKAGES") == "1"
PYTHON = str(harness.existing(harness.CACHE / "packages/bin/python")) if ALL else sys.executable
CELL_SECONDS = 60.0


@dataclass(frozen=True)
class Row:
    name: str
    prepare: str
    # The value of `check` is the same before the fork and after it, in each kernel.
    check: str
    value: str
    # Parts of the warnings, one for each.
    warns: tuple[str, ...] = ()
    # Part of the reason. After `release` the session can be forked.
    refuses: str | None = None
    release: str = "pass"
    # .venv lacks the package.
    is_extra: bool = False
    # A server on loopback, or a call that sandboxes deny.
    in_sandbox: bool = True


CHILDREN = "child processes belong to the forerunner"
FILES = "open files are shared"
SOCKETS = "open sockets are shared"

ROWS = [
    Row(
        "numpy",
        "import os, numpy as np; a = np.random.default_rng(0).random((500, 500)); b = a @ a",
        # OpenBLAS has threads, also in the branch.
        "bool((a @ a == b).all()), bool(np.allclose(a @ np.linalg.inv(a), np.eye(500))), "
        "len(os.listdir('/proc/self/task')) > 1 or len(os.sched_getaffinity(0)) == 1",
        "(True, True, True)",
    ),
    Row(
        "scipy",
        "import numpy as np, scipy.linalg, scipy.optimize\n"
        "a = np.random.default_rng(0).random((300, 300)); _ = scipy.linalg.eigvals(a)",
        "bool(np.allclose(scipy.linalg.lu_solve(scipy.linalg.lu_factor(a), a), np.eye(300))), "
        "round(scipy.optimize.brentq(lambda x: x * x - 2, 0, 2), 6)",
        "(True, 1.414214)",
        is_extra=True,
    ),
    Row(
        "scipy.fft with threads",
        "import numpy as np, scipy.fft\n"
        "a = np.random.default_rng(0).random((64, 512)); _ = scipy.fft.fft2(a, workers=4)",
        "bool(np.allclose(scipy.fft.ifft2(scipy.fft.fft2(a, workers=4), workers=4), a))",
        "True",
        is_extra=True,
    ),
    Row(
        "pandas",
        "import numpy as np, pandas as pd\n"
        "d = pd.DataFrame({'k': ['a', 'b'] * 50000, 'v': np.arange(100000.0)})",
        "d.groupby('k').v.sum().to_dict(), int(d.k.str.upper().eq('A').sum())",
        "({'a': 2499950000.0, 'b': 2500000000.0}, 50000)",
    ),
    Row(
        "pyarrow",
        "import pyarrow as pa, pyarrow.parquet as pq\n"
        "t = pa.table({'k': [i % 7 for i in range(70000)], 'v': list(range(70000))})\n"
        "pq.write_table(t, 't.parquet', row_group_size=5000)",
        "r = pq.read_table('t.parquet', use_threads=True)\n"
        "r.group_by('k').aggregate([('v', 'sum')]).sort_by('k')['v_sum'].to_pylist()[:2]",
        "[349965000, 349975000]",
        is_extra=True,
    ),
    Row(
        "polars, simple use",
        "import polars as pl; d = pl.DataFrame({'v': range(10)})",
        "d['v'].sum(), d['v'].max()",
        "(45, 9)",
        is_extra=True,
    ),
    Row(
        "polars, after a parallel query",
        "import polars as pl; d = pl.DataFrame({'k': ['a', 'b'] * 5000, 'v': range(10000)})",
        "d.group_by('k').agg(pl.col('v').sum()).sort('k').rows()",
        "[('a', 24995000), ('b', 25000000)]",
        refuses="polars has run a parallel query",
        release="",
        is_extra=True,
    ),
    Row(
        "duckdb",
        "import duckdb; c = duckdb.connect(); _ = c.execute('set threads=4')\n"
        "_ = c.execute('create table t as select range % 7 k, range v from range(1000000)')",
        "c.execute('select k, sum(v) from t group by k order by k').fetchall()[:2], "
        "c.execute('select count(*) from t a join t b using (v)').fetchone()",
        "([(0, 71428928571), (1, 71428071429)], (1000000,))",
        is_extra=True,
    ),
    Row(
        "scikit-learn, OpenMP",
        "import numpy as np\nfrom sklearn.cluster import KMeans\n"
        "from sklearn.ensemble import HistGradientBoostingRegressor as Boost\n"
        "x = np.random.default_rng(0).random((5000, 5)); y = x[:, 0]",
        "Boost(max_iter=20).fit(x, y).score(x, y) > 0.9, "
        "KMeans(3, n_init=1, random_state=0).fit(x).labels_.shape",
        "(True, (5000,))",
        is_extra=True,
    ),
    Row(
        "scikit-learn, n_jobs",
        "import numpy as np\nfrom sklearn.ensemble import RandomForestClassifier as Forest\n"
        "from sklearn.model_selection import cross_val_score\n"
        "x = np.random.default_rng(0).random((300, 5)); y = x[:, 0] > 0.5\n"
        "f = Forest(5, random_state=0)",
        "bool(cross_val_score(f, x, y, n_jobs=2).mean() > 0.8), "
        "Forest(5, n_jobs=2, random_state=0).fit(x, y).score(x, y) > 0.9",
        "(True, True)",
        warns=(CHILDREN,),
        is_extra=True,
    ),
    *(
        Row(
            f"joblib, {backend}",
            "import joblib",
            f"joblib.Parallel(2, backend={backend!r})(joblib.delayed(abs)(-i) for i in range(4))",
            "[0, 1, 2, 3]",
            # The tracker of resources is a process.
            warns=() if backend == "threading" else (CHILDREN,),
            is_extra=True,
        )
        for backend in ("loky", "multiprocessing", "threading")
    ),
    Row(
        "matplotlib",
        "import io, matplotlib.pyplot as plt; f, a = plt.subplots(); _ = a.plot([1, 2])",
        "o = io.BytesIO(); f.savefig(o, format='png'); plt.close(f); len(o.getvalue()) > 1000",
        "True",
    ),
    Row(
        "sqlite3, in memory",
        "import sqlite3; c = sqlite3.connect(':memory:')\n"
        "_ = c.execute('create table t as select 7 x')",
        "c.execute('select x from t').fetchall(), c.execute('select 1 + 1').fetchone()",
        "([(7,)], (2,))",
    ),
    Row(
        "sqlite3, file",
        "import sqlite3; c = sqlite3.connect('s.db')\n"
        "with c: _ = c.execute('create table t as select 7 x')",
        # The document says that it must be opened again.
        "c.close(); c = sqlite3.connect('s.db'); c.execute('select x from t').fetchall()",
        "[(7,)]",
        warns=(FILES,),
    ),
    Row(
        "requests, keep-alive",
        "import requests; s = requests.Session(); s.trust_env = False",
        # Each uses a connection of its own.
        "s.close(); s.get(URL).text",
        "'hello'",
        warns=(SOCKETS,),
        in_sandbox=False,
    ),
    Row(
        "httpx, keep-alive",
        "import httpx; s = httpx.Client(trust_env=False)",
        "s.close(); s = httpx.Client(trust_env=False); s.get(URL).text",
        "'hello'",
        warns=(SOCKETS,),
        is_extra=True,
        in_sandbox=False,
    ),
    Row(
        "httpx, asynchronous",
        "import httpx; s = httpx.AsyncClient(trust_env=False)",
        "await s.aclose(); s = httpx.AsyncClient(trust_env=False); (await s.get(URL)).text",
        "'hello'",
        warns=(SOCKETS,),
        is_extra=True,
        in_sandbox=False,
    ),
    Row(
        "tqdm",
        "import io, tqdm; b = tqdm.tqdm(total=100, file=io.StringIO())",
        "sum(tqdm.tqdm(range(10), file=io.StringIO())), tqdm.tqdm.monitor.is_alive()",
        "(45, True)",
        is_extra=True,
    ),
    Row(
        "asyncio",
        "import asyncio\nn = 0\nasync def count():\n    global n\n    while True:\n"
        "        await asyncio.sleep(0.001); n += 1\ntask = asyncio.ensure_future(count())",
        "m = n\nwhile n < m + 3: await asyncio.sleep(0.001)\n"
        "await asyncio.to_thread(abs, -5), task.done()",
        "(5, False)",
        warns=("asyncio tasks run on in both",),
    ),
    Row(
        "ThreadPoolExecutor, idle",
        "from concurrent.futures import ThreadPoolExecutor; pool = ThreadPoolExecutor(2)",
        "sum(pool.map(abs, range(10)))",
        "45",
    ),
    Row(
        "ThreadPoolExecutor, busy",
        "import threading\nfrom concurrent.futures import ThreadPoolExecutor\n"
        "end = threading.Event(); pool = ThreadPoolExecutor(2); future = pool.submit(end.wait)",
        "sum(pool.map(abs, range(10)))",
        "45",
        refuses="of a ThreadPoolExecutor has work",
        release="end.set(); future.result()",
    ),
    Row(
        "ProcessPoolExecutor",
        "from concurrent.futures import ProcessPoolExecutor; pool = ProcessPoolExecutor(1)\n"
        "_ = pool.submit(abs, -1).result()",
        "with ProcessPoolExecutor(1) as own: x = own.submit(abs, -3).result()\nx",
        "3",
        refuses="a ProcessPoolExecutor is open",
        release="pool.shutdown()",
    ),
    *(
        Row(
            f"multiprocessing.{name}",
            f"import multiprocessing as mp, {module}; pool = {module}.{name}(1)",
            "with mp.Pool(1) as own: x = own.map(abs, [-3])\nx",
            "[3]",
            refuses="a multiprocessing pool is open",
            release="pool.close(); pool.join()",
        )
        for name, module in (("Pool", "multiprocessing"), ("ThreadPool", "multiprocessing.pool"))
    ),
    Row(
        "multiprocessing.Queue",
        "import multiprocessing as mp; q = mp.Queue(); q.put(3)",
        "p = mp.Process(target=int); p.start(); p.join(); p.exitcode",
        "0",
        refuses="the thread QueueFeederThread runs",
        release="q.close(); q.join_thread()",
    ),
    Row(
        "multiprocessing.shared_memory",
        "from multiprocessing.shared_memory import SharedMemory\n"
        "m = SharedMemory(create=True, size=10); m.buf[0] = 5",
        "other = SharedMemory(m.name); x = other.buf[0]; other.close(); m.buf[0], x",
        "(5, 5)",
        warns=(FILES, CHILDREN),
    ),
    Row(
        "multiprocessing.Value",
        "import multiprocessing as mp; v = mp.Value('i', 5)",
        "with v.get_lock(): x = v.value\nx",
        "5",
        warns=(FILES,),
    ),
    Row(
        "subprocess",
        "import subprocess; child = subprocess.Popen(['sleep', '1000'])",
        "subprocess.run(['echo', 'x'], capture_output=True).stdout",
        "b'x\\n'",
        warns=(CHILDREN,),
    ),
    Row(
        "tempfile.TemporaryDirectory",
        "import os, tempfile; d = tempfile.TemporaryDirectory()",
        "open(d.name + '/x', 'w').write('1'), os.listdir(d.name)",
        "(1, ['x'])",
    ),
    Row(
        "numpy.memmap",
        "import numpy as np; m = np.memmap('m.bin', 'u1', 'w+', shape=10); m[0] = 5",
        "int(m[0]), int(np.memmap('m.bin', 'u1', 'r')[0])",
        "(5, 5)",
        warns=(FILES,),
    ),
    Row(
        "mmap, without a file",
        "import mmap; m = mmap.mmap(-1, 4096); m[0] = 5",
        "m[0]",
        "5",
        warns=("memory that is mapped as shared",),
    ),
    Row(
        "file, open for writing",
        "f = open('f.txt', 'w'); _ = f.write('x'); f.flush()",
        "open('f.txt').read()",
        "'x'",
        warns=(FILES,),
    ),
    Row(
        # Each reads from its own position.
        "file, open for reading",
        "_ = open('f.txt', 'w').write('abc' * 100000); f = open('f.txt', 'rb', 0)",
        "f.seek(0); f.read(3)",
        "b'abc'",
    ),
    Row(
        "threading.Timer",
        "import threading; t = threading.Timer(1000, print); t.start()",
        "t.is_alive() or t.finished.is_set()",
        "True",
        refuses="the thread Thread-",
        release="t.cancel(); t.join()",
    ),
    Row(
        "signal.setitimer",
        "import signal; _ = signal.signal(signal.SIGALRM, signal.SIG_IGN)\n"
        "_ = signal.setitimer(signal.ITIMER_REAL, 1000)",
        "signal.getsignal(signal.SIGALRM) == signal.SIG_IGN",
        "True",
        warns=("timers are not set in the branch: ITIMER_REAL",),
    ),
    Row(
        "IPython's history",
        "first = 'x'",
        "%history 2",
        "first = 'x'",
    ),
    Row(
        "io_uring",
        "import ctypes, os\n"
        "fd = ctypes.CDLL(None).syscall(425, 4, ctypes.create_string_buffer(120))\n"
        "assert fd > 0 or os.path.exists('/proc/sys/kernel/io_uring_disabled')",
        "1 + 1",
        "2",
        refuses="an io_uring is open",
        release="os.close(fd)",
        in_sandbox=False,
    ),
]
RUNS = [
    pytest.param(row, sandbox, id=f"{row.name}-{'sandbox' if sandbox else 'plain'}")
    for row in ROWS
    for sandbox in (False, True)
    # By default each row runs once.
    if (row.in_sandbox or not sandbox) and (ALL or not (row.is_extra or sandbox))
]


class Hello(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "5")
        self.end_headers()
        self.wfile.write(b"hello")

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """A server that keeps connections open."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Hello) as server:
        threading.Thread(target=server.serve_forever).start()
        server.daemon_threads = True
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


async def run(executor: CodeExecutor, code: str) -> str:
    return (await executor.execute(code, timeout=CELL_SECONDS)).text or ""


@pytest.mark.parametrize(("row", "sandbox"), RUNS)
async def test_package(row: Row, sandbox: bool, url: str, workspace: Path) -> None:
    async with CodeExecutor(python=PYTHON, sandbox=sandbox, log_level="ERROR") as executor:
        await run(executor, f"URL = {url!r}")
        await run(executor, row.prepare)
        before = await run(executor, row.check)
        assert before == row.value
        if row.refuses is not None:
            with pytest.raises(RuntimeError, match=row.refuses):
                await executor.fork()
            assert await run(executor, row.check) == row.value
            if not row.release:
                return
            await run(executor, row.release)
        (branch,) = await executor.fork()
        assert len(branch.warnings) == len(row.warns), branch.warnings
        for text in row.warns:
            assert any(text in warning for warning in branch.warnings), branch.warnings
        for each in (branch, executor):
            assert await run(each, row.check) == row.value
        (deep,) = await branch.fork()
        for each in (deep, branch, executor):
            assert await run(each, row.check) == row.value
        for each in (deep, branch):
            await each.stop()
        assert await run(executor, row.check) == row.value
