# SPDX-License-Identifier: Apache-2.0
"""Commands whose output comes in pieces: order, slow readers, input, signals, and their ends."""

from __future__ import annotations

import asyncio
import gc
import hashlib
import os
import signal
import sys
import warnings
from pathlib import Path

import harness
import pytest
from ipybox import CodeExecutionError, CodeExecutor, Command, CommandTimeout
from ipybox.commands import MAX_WAITING_BYTES
from ipybox.core import CoreError
from meeting import until, wait_until_reaped

both = pytest.mark.parametrize("sandbox", [True, False])


def executor(sandbox: bool = True, **options: object) -> CodeExecutor:
    options |= {"sandbox": sandbox, "approve_tool_calls": False}
    return CodeExecutor(**options)  # type: ignore[arg-type]


async def read(command: Command) -> tuple[bytes, bytes]:
    """The rest of stdout and stderr."""
    pieces = [piece async for piece in command]
    streams = ("stdout", "stderr")
    out, err = (b"".join(each.data for each in pieces if each.stream == name) for name in streams)
    return out, err


async def begin(command: Command, word: str = "begun") -> None:
    """Reads until the command has printed this line."""
    text = ""
    while word + "\n" not in text:
        text += (await command.__anext__()).text


@both
async def test_output_comes_as_it_is_printed(sandbox: bool) -> None:
    async with executor(sandbox) as e:
        script = "for i in 1 2 3; do echo $i; read x; echo $x >&2; done; exit 7"
        async with e.start_command(script, stdin=True) as command:
            for i in range(1, 4):
                piece = await command.__anext__()
                assert (piece.stream, piece.data, piece.text) == ("stdout", b"%d\n" % i, f"{i}\n")
                assert command.returncode is None
                await command.write_stdin(f"answer {i}\n")
                piece = await command.__anext__()
                assert (piece.stream, piece.data) == ("stderr", b"answer %d\n" % i)
            assert await read(command) == (b"", b"")
            assert command.returncode == 7
            result = await command.wait()
            assert (result.exit_status, result.signal, result.stdout) == (7, None, b"")
            assert await read(command) == (b"", b"")


async def test_arguments_environment_and_directory(workspace: Path) -> None:
    (workspace / "folder").mkdir()
    async with executor() as e:
        options = {"env": {"MORE": "m"}, "cwd": "folder", "input": "in\n"}
        command = e.start_command("cat; echo $MORE; pwd", **options)  # type: ignore[arg-type]
        assert (await read(command))[0] == f"in\nm\n{workspace}/folder\n".encode()
        odd = ["printf", "%s|", "a b", "", os.fsdecode(b"\xff")]
        assert (await read(e.start_command(odd)))[0] == b"a b||\xff|"


async def test_text_of_characters_in_two_pieces() -> None:
    async with executor(False) as e:
        script = r"printf '\303'; read x; printf '\244\303'"
        command = e.start_command(script, stdin=True)
        pieces = [await command.__anext__()]
        await command.write_stdin("\n")
        pieces += [piece async for piece in command]
        assert [piece.data for piece in pieces] == [b"\xc3", b"\xa4\xc3", b""]
        assert [piece.text for piece in pieces] == ["", "ä", "\ufffd"]


@both
async def test_a_slow_reader_slows_the_command(sandbox: bool, workspace: Path) -> None:
    """Nothing is lost, and little is kept. Another command does not wait for it."""
    size = 60_000_000
    script = (
        "import sys, hashlib, random\n"
        "made, draw = hashlib.sha256(), random.Random(1)\n"
        f"for i in range({size // 100_000}):\n"
        "    piece = draw.randbytes(100_000)\n"
        "    made.update(piece)\n"
        "    sys.stdout.buffer.write(piece)\n"
        "print(made.hexdigest(), file=open('end', 'w'))\n"
    )
    async with executor(sandbox) as e:
        command = e.start_command([sys.executable, "-c", script])
        await until(lambda: command._run._is_paused)
        assert (await e.run_command("echo other")).stdout == b"other\n"  # after the pause
        kept = command._run._n_bytes
        assert kept > MAX_WAITING_BYTES
        for _ in range(5):
            await e.run_command("true")
        assert command._run._n_bytes == kept < 16_000_000
        assert not (workspace / "end").exists()
        got, n = hashlib.sha256(), 0
        async for piece in command:
            got.update(piece.data)
            n += len(piece.data)
        assert n == size and command.returncode == 0
        assert got.hexdigest() + "\n" == (workspace / "end").read_text()


async def test_many_small_pieces_pause_it_too() -> None:
    async with executor(False) as e:
        script = "import os\nfor i in range(30_000): os.write(1, b'%d ' % i)"
        command = e.start_command([sys.executable, "-c", script])
        await until(lambda: command._run._is_paused or command._run.is_done)
        out, _ = await read(command)
        assert out == b"".join(b"%d " % i for i in range(30_000))


@both
async def test_it_reads_less_than_it_is_given(sandbox: bool) -> None:
    async with executor(sandbox) as e:
        # One that reads nothing: the writer waits until it is killed.
        command = e.start_command("echo begun; exec sleep 1001", stdin=True)
        await begin(command)
        writing = asyncio.create_task(command.write_stdin(bytes(10_000_000)))
        await e.run_command("true")
        assert not writing.done()
        command.kill()
        with pytest.raises(BrokenPipeError, match="has ended|has closed"):
            await writing
        assert (await command.wait()).signal == 9
        with pytest.raises(BrokenPipeError):
            await command.write_stdin(b"x")
        await command.close_stdin()  # does nothing
        # One that closes its standard input, and runs on.
        command = e.start_command("exec <&-; echo begun; exec sleep 1001", stdin=True)
        await begin(command)
        with pytest.raises(BrokenPipeError):
            await command.write_stdin(bytes(1_000_000))
        command.kill()
        # A writer that is cancelled does not wait any more, and the command continues.
        command = e.start_command("echo begun; read x; echo $x; wc -c", stdin=True)
        await begin(command)
        await command.write_stdin("line\n")
        await begin(command, "line")
        await command.close_stdin()
        assert await read(command) == (b"0\n", b"")


async def test_a_writer_is_cancelled() -> None:
    async with executor(False) as e:
        script = "echo begun; while [ ! -e go ]; do sleep 0.01; done; wc -c"
        command = e.start_command(script, stdin=True)
        await begin(command)
        writing = asyncio.create_task(command.write_stdin(bytes(1_000_000)))
        await e.run_command("true")
        writing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await writing
        await e.run_command("touch go")
        await command.close_stdin()
        assert await read(command) == (b"1000000\n", b"")


async def test_input_of_many_megabytes() -> None:
    data = bytes(range(256)) * 200_000
    async with executor() as e:
        command = e.start_command(["cat"], stdin=True, input=b"first")

        async def write() -> None:
            await command.write_stdin(data)
            await command.write_stdin("last")
            await command.close_stdin()

        writing = asyncio.create_task(write())
        assert (await read(command))[0] == b"first" + data + b"last"
        await writing


@both
async def test_signals(sandbox: bool) -> None:
    async with executor(sandbox) as e:
        command = e.start_command("trap 'echo got; exit 3' TERM; echo begun; sleep 1001 & wait")
        await begin(command)
        command.terminate()
        assert await read(command) == (b"got\n", b"")
        assert command.returncode == 3
        # Before its program is executed.
        command = e.start_command("sleep 1001")
        command.terminate()
        assert (await command.wait()).signal == signal.SIGTERM
        assert command.returncode == -15
        # One that ignores it.
        script = "trap '' TERM; echo begun; while :; do sleep 0.01; echo still; done"
        command = e.start_command(script)
        await begin(command)
        command.terminate()
        await begin(command, "still")
        await begin(command, "still")
        assert command.returncode is None
        command.kill()
        await read(command)
        assert command.returncode == -9
        command.send_signal(signal.SIGUSR1)  # does nothing
        ended = e.start_command("kill -SEGV $$")
        await read(ended)
        assert ended.returncode == -11


FAMILY = (
    "sleep 1001 & setsid env -i sh -c 'sleep 1002 & sleep 1003' & "
    "(setsid env -i sleep 1004 &); echo begun; sleep 1005"
)


async def start_family(e: CodeExecutor) -> tuple[Command, set[int]]:
    """A command with children, grandchildren and orphans, and the five processes."""
    before = harness.descendants()
    command = e.start_command(FAMILY)
    await begin(command)
    await until(lambda: len(sleepers(before)) == 5)
    return command, sleepers(before)


def sleepers(before: set[int]) -> set[int]:
    """New processes that execute `sleep`."""
    return {pid for pid in harness.descendants() - before if is_sleep(pid)}


def is_sleep(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().startswith(b"sleep\0")
    except OSError:
        return False


@both
@pytest.mark.parametrize("how", ["block", "cancelled", "killed", "collected", "stopped"])
async def test_everything_is_killed(sandbox: bool, how: str) -> None:
    async with executor(sandbox) as e:
        command, family = await start_family(e)
        if how == "block":
            async with command:
                pass
            with pytest.raises(CoreError, match="cancelled"):
                await command.wait()
        elif how == "cancelled":
            reading = asyncio.create_task(read(command))
            await asyncio.sleep(0)
            reading.cancel()
            with pytest.raises(asyncio.CancelledError):
                await reading
        elif how == "killed":
            command.kill()
            await read(command)
            assert command.returncode == -9
        elif how == "collected":
            run = command._run
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ResourceWarning)
                del command
                gc.collect()
            await until(lambda: run.is_done)
        else:
            await e.stop()
            with pytest.raises(CoreError):
                await read(command)
        for pid in family:
            wait_until_reaped(pid)


async def test_a_timeout_while_the_reader_is_slow() -> None:
    """What it has printed until then is there."""
    async with executor() as e:
        command = e.start_command("yes", timeout=2)
        await until(lambda: command._run.is_done)
        n = 0
        with pytest.raises(CommandTimeout, match="longer than 2 s"):
            async for piece in command:
                n += len(piece.data)
        assert n > MAX_WAITING_BYTES
        with pytest.raises(TimeoutError):
            await command.wait()
        assert command.returncode == -9


@both
async def test_it_closes_its_output_and_runs_on(sandbox: bool, workspace: Path) -> None:
    async with executor(sandbox) as e:
        script = "echo out; exec >&- 2>&-; while [ ! -e go ]; do sleep 0.01; done; exit 4"
        command = e.start_command(script)
        assert (await command.__anext__()).data == b"out\n"
        rest = asyncio.create_task(read(command))
        await e.run_command("true")
        assert not rest.done() and command.returncode is None
        (workspace / "go").touch()
        assert await rest == (b"", b"")
        assert command.returncode == 4


@both
async def test_a_daemon_holds_its_output(sandbox: bool) -> None:
    """It does not delay the end, and continues until the kernel ends."""
    async with executor(sandbox) as e:
        before = harness.descendants()
        command = e.start_command("setsid sleep 1001 & echo end")
        assert await read(command) == (b"end\n", b"")
        assert command.returncode == 0
        await until(lambda: len(sleepers(before)) == 1)
        (daemon,) = sleepers(before)
        await e.reset()
        wait_until_reaped(daemon)


HIDING = """
import ctypes, os
ctypes.CDLL(None).prctl(36, 0)  # PR_SET_CHILD_SUBREAPER
if os.fork() == 0:
    if os.fork() == 0:
        os.execvp("sleep", ["sleep", "1001"])
    os._exit(0)
os.wait()
print("begun", flush=True)
import signal
signal.pause()
"""


@both
async def test_what_hides_ends_with_the_kernel(sandbox: bool) -> None:
    """A command that gives up its descendants: they may survive it, but not the kernel."""
    async with executor(sandbox) as e:
        before = harness.descendants()
        command = e.start_command([sys.executable, "-c", HIDING])
        await begin(command)
        await until(lambda: len(sleepers(before)) == 1)
        hidden = sleepers(before)
        command.kill()
        await read(command)
        assert command.returncode == -9
        await e.reset()
        for pid in hidden:
            wait_until_reaped(pid)


@both
async def test_it_ends_with_the_kernel(sandbox: bool) -> None:
    async with executor(sandbox) as e:
        command = e.start_command("echo begun; yes", stdin=True)
        await begin(command)
        with pytest.raises(CodeExecutionError):
            await e.execute("import os\nos.kill(os.getpid(), 9)")
        with pytest.raises(CoreError) as caught:
            await read(command)
        assert caught.value.kind == "kernel_died" and command.returncode is None
        with pytest.raises(BrokenPipeError):
            await command.write_stdin("x")
        command = e.start_command("echo begun; yes")
        await begin(command)
        await e.reset()
        with pytest.raises(CoreError) as caught:
            await read(command)
        assert caught.value.kind == "cancelled"
        assert (await read(e.start_command("echo fresh")))[0] == b"fresh\n"


async def test_before_there_is_a_kernel() -> None:
    """Input, signals and the end of a command that waits for its kernel."""
    async with executor(False) as e:
        await e.reset()
        commands = [e.start_command(["cat"], stdin=True) for _ in range(3)]
        await commands[0].write_stdin("early")
        await commands[0].close_stdin()
        commands[1].terminate()
        commands[2].kill()
        assert (await read(commands[0]))[0] == b"early"
        assert [(await command.wait()).signal for command in commands[1:]] == [15, 9]


async def test_errors(workspace: Path) -> None:
    (workspace / "data").write_text("no program")
    e = executor()
    with pytest.raises(RuntimeError, match="start the executor"):
        e.start_command(["true"])
    async with e:
        for _ in range(2):
            command = e.start_command(["no-such"])
            with pytest.raises(FileNotFoundError, match='"no-such"'):
                await read(command)
            with pytest.raises(FileNotFoundError):
                await command.wait()
            assert command.returncode is None
        with pytest.raises(CoreError, match="denied"):
            await e.start_command(["./data"]).wait()
        for wrong in ([], "\0", [""]):
            with pytest.raises(ValueError):
                e.start_command(wrong)
        with pytest.raises(ValueError):
            e.start_command(["true"], timeout=0)
        command = e.start_command(["cat"])
        with pytest.raises(ValueError, match="stdin=True"):
            await command.write_stdin("x")
        with pytest.raises(ValueError, match="stdin=True"):
            await command.close_stdin()
        assert (await command.wait()).exit_status == 0


async def test_more_than_there_may_be() -> None:
    async with executor() as e:
        commands = [e.start_command("echo begun; sleep 1001") for _ in range(64)]
        for command in commands:
            await begin(command)
        with pytest.raises(CoreError, match="64 commands") as caught:
            await e.start_command(["true"]).wait()
        assert caught.value.kind == "limit"
        commands[7].kill()
        await commands[7].wait()
        assert (await e.start_command(["true"]).wait()).exit_status == 0
        for command in commands:
            command.kill()
            await read(command)


async def test_a_cell_and_a_command_at_once() -> None:
    """A reader of a cell that waits for a command's output does not wait for ever."""
    async with executor() as e:
        cell = e.stream("for i in range(100): print('x' * 100_000)", chunks=True)
        await anext(cell)
        assert (await read(e.start_command("head -c 5000000 /dev/zero")))[0] == bytes(5_000_000)
        async for _ in cell:
            pass


async def test_a_forked_process_does_not_use_it() -> None:
    async with executor(False) as e:
        async with e.start_command("echo begun; sleep 1001") as command:
            await begin(command)
            pid = os.fork()
            if pid == 0:
                status = 1
                try:
                    command.__anext__().send(None)
                except CoreError:
                    command.kill()
                    status = 0
                finally:
                    os._exit(status)
            _, status = os.waitpid(pid, 0)
            assert os.waitstatus_to_exitcode(status) == 0
            assert command.returncode is None
