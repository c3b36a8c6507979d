# SPDX-License-Identifier: Apache-2.0
"""`ExecutorPool`: fresh sessions, their number, their order, their ends, what is left."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from ipybox import (
    CodeExecutionError,
    CodeExecutor,
    ExecutorPool,
    PoolClosedError,
    PoolFullError,
    SessionExpiredError,
)
from ipybox import pool as pool_module
from ipybox.removal import remove_directory

sandboxes = pytest.mark.parametrize("sandbox", [False, True], ids=["plain", "sandbox"])


@pytest.fixture
def sessions(workspace: Path) -> Path:
    """Where the pool of a test makes its directories."""
    return workspace / "sessions"


@sandboxes
async def test_each_session_is_fresh(sessions: Path, sandbox: bool) -> None:
    seen = []
    async with ExecutorPool(2, directory=sessions, sandbox=sandbox) as pool:
        for number in range(3):
            async with pool.session() as executor:
                result = await executor.execute(
                    "import os; print(os.getcwd(), os.listdir(), 'x' in globals())"
                )
                assert executor.workspace is not None
                seen.append(executor.workspace)
                assert result.text == f"{executor.workspace} [] False"
                await executor.execute(f"x = {number}; open('a', 'w').write('a')")
                assert (executor.workspace / "a").read_text() == "a"
            assert not executor.workspace.exists()
        assert pool.statistics().sessions == 3 and len(set(seen)) == 3
    assert os.listdir(sessions) == []


async def test_a_sandbox_writes_its_own_workspace_only(sessions: Path) -> None:
    async with ExecutorPool(2, directory=sessions) as pool:
        async with pool.session() as one, pool.session() as other:
            await one.execute("open('mine', 'w').write('secret')")
            assert one.workspace is not None
            path = one.workspace / "mine"
            assert path.read_text() == "secret"
            with pytest.raises(CodeExecutionError, match="Read-only|Permission|No such file"):
                await other.execute(f"open({str(path)!r}, 'w')")
            assert path.read_text() == "secret"


@pytest.mark.parametrize("size", [1, 2])
async def test_at_most_size_sessions(sessions: Path, size: int) -> None:
    order = []
    started = asyncio.Event()
    may_end = asyncio.Event()

    async with ExecutorPool(size, directory=sessions, sandbox=False, ready=1) as pool:

        async def use(number: int) -> None:
            async with pool.session() as executor:
                order.append(number)
                if len(order) == size:
                    started.set()
                await may_end.wait()
                assert (await executor.execute("6 * 7")).text == "42"

        tasks = []
        for number in range(6):
            tasks.append(asyncio.create_task(use(number)))
            await asyncio.sleep(0)  # each asks before the next one
        await started.wait()
        statistics = pool.statistics()
        assert (statistics.in_use, statistics.waiting) == (size, 6 - size)
        may_end.set()
        await asyncio.gather(*tasks)
        statistics = pool.statistics()
        assert statistics.peak_in_use == size and statistics.sessions == 6
        assert sorted(order) == list(range(6))
        if size == 1:  # else two executors may start at the same time
            assert order == list(range(6))
        assert 0 < statistics.longest_wait_s <= statistics.waited_s


async def test_ready_executors_are_used(sessions: Path) -> None:
    async with ExecutorPool(3, directory=sessions, sandbox=False, ready=2) as pool:
        while pool.statistics().ready < 2:
            await asyncio.sleep(0)
        async with pool.session(), pool.session(), pool.session():
            statistics = pool.statistics()
        assert statistics.sessions == 3 and statistics.sessions_ready >= 2


async def test_waiting_ends(sessions: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool_module, "MAX_WAITING", 1)
    async with ExecutorPool(1, directory=sessions, sandbox=False, ready=0) as pool:
        async with pool.session():
            with pytest.raises(TimeoutError, match="within 0.01 s: 1 are in use"):
                async with pool.session(0.01):
                    pass
            waiting = asyncio.create_task(pool.session().__aenter__())
            await asyncio.sleep(0)
            with pytest.raises(PoolFullError, match="1 tasks wait"):
                async with pool.session():
                    pass
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            assert pool.statistics().waiting == 0
        # No place was lost.
        async with pool.session(60) as executor:
            assert (await executor.execute("1")).text == "1"


async def test_a_task_is_cancelled_when_it_gets_its_place(sessions: Path) -> None:
    async with ExecutorPool(1, directory=sessions, sandbox=False, ready=0) as pool:
        session = pool.session()
        await session.__aenter__()
        waiting = asyncio.create_task(pool.session(60).__aenter__())
        while pool.statistics().waiting == 0:
            await asyncio.sleep(0)
        ending = asyncio.create_task(session.__aexit__(None, None, None))
        while pool.statistics().waiting == 1:
            await asyncio.sleep(0)
        waiting.cancel()  # the place is given, and the task has not run since
        with pytest.raises(asyncio.CancelledError):
            await waiting
        await ending
        async with pool.session(60) as executor:
            assert (await executor.execute("1")).text == "1"


async def test_places_are_given_in_order(sessions: Path) -> None:
    """Also beside tasks that give up."""
    order: list[int] = []
    async with ExecutorPool(1, directory=sessions, sandbox=False, ready=1) as pool:

        async def use(number: int) -> None:
            async with pool.session():
                order.append(number)

        async with pool.session():
            tasks = []
            for number in range(8):
                tasks.append(asyncio.create_task(use(number)))
                await asyncio.sleep(0)
            for number in (0, 3, 7):
                tasks[number].cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    assert order == [1, 2, 4, 5, 6]


async def test_a_task_that_is_cancelled_frees_its_place(sessions: Path) -> None:
    runs = asyncio.Event()

    async def use() -> None:
        async with pool.session() as executor:
            async for _ in executor.stream("print('runs')\nwhile True: pass", chunks=True):
                runs.set()

    async with ExecutorPool(1, directory=sessions, sandbox=False, ready=0) as pool:
        task = asyncio.create_task(use())
        await runs.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        async with pool.session(60) as executor:
            assert (await executor.execute("1")).text == "1"
    assert os.listdir(sessions) == []


async def test_session_timeout(sessions: Path) -> None:
    options = {"directory": sessions, "sandbox": False, "ready": 0}
    async with ExecutorPool(1, session_timeout=1, **options) as pool:
        with pytest.raises(SessionExpiredError, match="longer than 1 s") as caught:
            async with pool.session() as executor:
                await executor.execute("import time\nwhile True: time.sleep(1)")
        assert isinstance(caught.value, TimeoutError)
        assert pool.statistics().expired == 1
        # An error of the code is not taken for it.
        with pytest.raises(CodeExecutionError, match="ZeroDivisionError"):
            async with pool.session() as executor:
                await executor.execute("1 / 0")
    assert os.listdir(sessions) == []


async def test_close_ends_everything(sessions: Path) -> None:
    pool = ExecutorPool(1, directory=sessions, sandbox=False, ready=1)
    async with pool:
        session = pool.session()
        executor = await session.__aenter__()
        cell = asyncio.create_task(executor.stream("while True: pass").__anext__())
        waiting = asyncio.create_task(pool.session().__aenter__())
        await asyncio.sleep(0)
    with pytest.raises(CodeExecutionError, match="stopped"):
        await cell
    with pytest.raises(PoolClosedError):
        await waiting
    await session.__aexit__(None, None, None)
    with pytest.raises(PoolClosedError, match="async with"):
        async with pool.session():
            pass
    assert os.listdir(sessions) == []
    assert pool.statistics().in_use == pool.statistics().waiting == 0


async def test_close_ends_starts(sessions: Path) -> None:
    """Nothing of a session that was being started is left when the pool is closed."""
    async with ExecutorPool(2, directory=sessions, sandbox=False, ready=1) as pool:
        starting = [asyncio.create_task(pool.session().__aenter__()) for _ in range(2)]
        while len(os.listdir(sessions)) < 2:
            await asyncio.sleep(0)
    assert os.listdir(sessions) == []
    for task in starting:
        with pytest.raises(PoolClosedError):
            await task


async def test_a_core_that_dies(sessions: Path) -> None:
    """Executors that were ready have died with it, and are replaced."""
    async with ExecutorPool(2, directory=sessions, sandbox=False, ready=2) as pool:
        while pool.statistics().ready < 2:
            await asyncio.sleep(0)
        async with pool.session() as executor:
            session = executor._session
            assert session is not None
            while pool.statistics().ready < 2:
                await asyncio.sleep(0)
            os.kill(session.core.pid, signal.SIGKILL)
            with pytest.raises(RuntimeError, match="core"):
                await executor.execute("1")
        for _ in range(3):
            async with pool.session() as executor:
                assert (await executor.execute("6 * 7")).text == "42"
    assert os.listdir(sessions) == []


@sandboxes
async def test_a_very_deep_directory(sessions: Path, sandbox: bool) -> None:
    """Deeper than Python recurses and than files may be open.

    Outside of a sandbox also deeper than paths may be long.
    """
    name = "d" if sandbox else "directory"
    code = (
        "import os\n"
        "os.makedirs('locked/inner'); os.chmod('locked', 0); os.symlink('/', 'link')\n"
        "for depth in range(1100):\n"
        f"    os.mkdir('{name}'); os.chdir('{name}')\n"
        "open('file', 'w').close()"
    )
    async with ExecutorPool(1, directory=sessions, sandbox=sandbox, ready=0) as pool:
        async with pool.session() as executor:
            await executor.execute(code)
        assert os.listdir(sessions) == []


def test_what_cannot_be_removed(workspace: Path, caplog: pytest.LogCaptureFixture) -> None:
    (workspace / "session/a/b").mkdir(parents=True)
    (workspace / "session/c").touch()
    outside = workspace / "outside"
    outside.mkdir()
    (outside / "file").touch()
    (workspace / "session/link").symlink_to(outside)
    (workspace / "link").symlink_to(outside)
    remove_directory(workspace / "link")
    assert "not a directory" in caplog.text
    remove_directory(workspace / "missing")
    remove_directory(workspace / "session")
    assert (outside / "file").exists() and not (workspace / "session").exists()


def test_directories_that_code_has_locked(workspace: Path) -> None:
    outside = workspace / "outside"
    outside.mkdir(mode=0o755)
    (workspace / "session/a/b").mkdir(parents=True)
    (workspace / "session/a/b/c").touch()
    (workspace / "session/link").symlink_to(outside)
    for name in ("a/b", "a"):
        (workspace / "session" / name).chmod(0)
    # root would need no permission.
    drop = ["setpriv", "--bounding-set=-dac_override,-dac_read_search"]
    code = (
        "import pathlib, shutil; from ipybox.removal import remove_directory\n"
        "path = pathlib.Path('session')\n"
        "shutil.rmtree(path, ignore_errors=True); assert path.exists()\n"
        "remove_directory(path); assert not path.exists()"
    )
    python = [sys.executable, "-c", code]
    subprocess.run([*drop, *python] if os.geteuid() == 0 else python, check=True)
    assert outside.stat().st_mode & 0o777 == 0o755


async def test_own_directory_for_temporary_files(workspace: Path) -> None:
    async with ExecutorPool(1) as pool:
        async with pool.session() as executor:
            assert executor.workspace is not None
            parent = executor.workspace.parent
            assert (await executor.execute("open('a', 'w').write('b')")).text == "1"
            assert (executor.workspace / "a").read_text() == "b"
    assert not parent.exists()


async def test_an_executor_that_does_not_start(sessions: Path, workspace: Path) -> None:
    missing = workspace / "no-python"
    async with ExecutorPool(1, directory=sessions, python=missing, ready=1) as pool:
        for _ in range(2):
            with pytest.raises(RuntimeError, match="no-python"):
                async with pool.session():
                    pass
        assert pool.statistics().failed_starts >= 2
    assert os.listdir(sessions) == []


def test_wrong_options(workspace: Path) -> None:
    for size in (0, 1001):
        with pytest.raises(ValueError, match="size must be from 1 to 1000"):
            ExecutorPool(size)
    with pytest.raises(ValueError, match="ready must be"):
        ExecutorPool(1, ready=-1)
    with pytest.raises(ValueError, match="from 0 to 1 with size=999, not 2"):
        ExecutorPool(999, ready=2)
    with pytest.raises(TypeError, match="directory"):
        ExecutorPool(1, workspace=workspace)
    with pytest.raises(TypeError, match="sandbx"):
        ExecutorPool(1, sandbx=True)


async def test_workspace_of_an_executor(workspace: Path) -> None:
    (workspace / "inner").mkdir()
    async with CodeExecutor(workspace=Path("inner")) as executor:
        result = await executor.execute("import os; os.getcwd()")
        assert result.text == repr(str(workspace / "inner"))
        (workspace / "file").write_text("text")
        await executor.upload("file")
        assert (workspace / "inner/file").read_text() == "text"
    with pytest.raises(RuntimeError, match="missing"):
        async with CodeExecutor(workspace=workspace / "missing"):
            pass
