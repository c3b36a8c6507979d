# SPDX-License-Identifier: Apache-2.0
"""`CodeExecutor(tools=…)`: functions of the program as tools of the code, their schemas, values,
errors, approvals, and what ends a call."""

from __future__ import annotations

import asyncio
import dataclasses
import enum
import functools
import json
import threading
from pathlib import Path
from typing import Annotated, Any, Literal, Optional, TypedDict, Union

import harness
import pytest
import scripted_server
from ipybox import (
    ApprovalRequest,
    CodeExecutionError,
    CodeExecutionResult,
    CodeExecutionTimeout,
    CodeExecutor,
    Content,
    ExecutorPool,
    Tool,
    generate_mcp_sources,
)
from ipybox.core.errors import InvalidError
from meeting import until

sandboxes = pytest.mark.parametrize("sandbox", [False, True], ids=["plain", "sandbox"])


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Options(TypedDict, total=False):
    deep: bool
    words: list[str]


class Need(TypedDict):
    name: str


@dataclasses.dataclass
class Node:
    """A node of a tree."""

    name: str
    children: list[Node] = dataclasses.field(default_factory=list)

    def __post_init__(self) -> None:
        if not self.name:
            raise ValueError("a node needs a name")


async def text(executor: CodeExecutor, code: str, **options: Any) -> str:
    return (await executor.execute(code, **options)).text or ""


async def error(executor: CodeExecutor, code: str) -> str:
    """The last line of the exception that a cell raises."""
    with pytest.raises(CodeExecutionError) as raised:
        await executor.execute(code)
    return str(raised.value).rstrip().splitlines()[-1]


def add(a: int, b: int = 2) -> int:
    """Adds two numbers.

    Args:
        a: The first.
        b (int): The second, which
            is 2 if it is not given.
    """
    return a + b


async def wait(seconds: float) -> str:
    await asyncio.sleep(seconds)
    return threading.current_thread().name


# Schemas


def test_the_schema_of_a_function() -> None:
    tool = Tool.from_function(add).describe()
    assert tool == {
        "name": "add",
        "description": "Adds two numbers.",
        "inputSchema": {
            "type": "object",
            "properties": {
                "a": {"type": "integer", "description": "The first."},
                "b": {
                    "type": "integer",
                    "description": "The second, which is 2 if it is not given.",
                    "default": 2,
                },
            },
            "required": ["a"],
            "additionalProperties": False,
        },
        "outputSchema": {"type": "integer"},
    }


def test_schemas_of_types() -> None:
    def function(
        one: str,
        two: float,
        three: bool,
        four: None,
        five: list[int],
        six: dict[str, float],
        seven: tuple[int, str],
        eight: tuple[str, ...],
        nine: Optional[int],  # noqa: UP045
        ten: Union[int, str],  # noqa: UP007
        eleven: Literal["a", 1],
        twelve: Annotated[str, ["unhashable"], "described"],
        thirteen: Any,
        fourteen: list,  # type: ignore[type-arg]
        fifteen: Color,
        sixteen: Level,
    ) -> None: ...

    schema = Tool.from_function(function).input_schema
    properties = schema["properties"]
    assert [properties[name] for name in properties] == [
        {"type": "string"},
        {"type": "number"},
        {"type": "boolean"},
        {"type": "null"},
        {"type": "array", "items": {"type": "integer"}},
        {"type": "object", "additionalProperties": {"type": "number"}},
        {
            "type": "array",
            "prefixItems": [{"type": "integer"}, {"type": "string"}],
            "items": False,
            "minItems": 2,
            "maxItems": 2,
        },
        {"type": "array", "items": {"type": "string"}},
        {"anyOf": [{"type": "integer"}, {"type": "null"}]},
        {"anyOf": [{"type": "integer"}, {"type": "string"}]},
        {"enum": ["a", 1]},
        {"type": "string", "description": "described"},
        {},
        {"type": "array", "items": {}},
        {"$ref": "#/$defs/Color"},
        {"$ref": "#/$defs/Level"},
    ]
    assert schema["$defs"] == {
        "Color": {"title": "Color", "enum": ["red", "blue"], "type": "string"},
        "Level": {"title": "Level", "enum": [1, 2], "type": "integer"},
    }


def test_descriptions_of_arguments() -> None:
    def sphinx(a: int, b: str) -> None:
        """Does it.

        :param a: The first,
            on two lines.
        :param str b: The second.
        :returns: Nothing.
        """

    tool = Tool.from_function(sphinx)
    properties = tool.input_schema["properties"]
    assert properties["a"]["description"] == "The first, on two lines."
    assert properties["b"]["description"] == "The second."
    assert tool.description == "Does it.\n\n:returns: Nothing."
    assert Tool.from_function(sphinx, "other", "Another text.").description == "Another text."


def test_functions_that_cannot_be_described() -> None:
    def positional(a: int, /) -> None: ...
    def many(*a: int) -> None: ...
    def named(**a: int) -> None: ...
    def unknown(a: nosuch) -> None: ...  # type: ignore[name-defined]  # noqa: F821
    def keys(a: dict[int, str]) -> None: ...
    def literal(a: Literal[b"x"]) -> None: ...
    def result(a: int) -> set[int]: ...

    for function, match in [
        (positional, "cannot be given by name"),
        (many, "cannot be given by name"),
        (named, "cannot be given by name"),
        (unknown, "cannot be resolved.*nosuch"),
        (keys, r"keys\(a\): the keys of a dict must be str"),
        (literal, "has no JSON form"),
        (result, r"result\(\), its result: .*set"),
        (lambda: 1, "no function with a name"),
        (3, "no function with a name"),
    ]:
        with pytest.raises(TypeError, match=match):
            CodeExecutor(tools=[function])  # type: ignore[list-item]
    for kind in (bytes, set[str], Path, threading.Thread, type, complex):

        def function(a: Any) -> None: ...

        function.__annotations__["a"] = kind
        with pytest.raises(
            TypeError, match=r"function\(a\): the annotation .* give an ipybox.Tool"
        ):
            CodeExecutor(tools=[function])
    with pytest.raises(ValueError, match="two tools with the name 'add'"):
        CodeExecutor(tools=[add, add])
    with pytest.raises(TypeError, match="must be a list"):
        CodeExecutor(tools={"group": add})  # type: ignore[dict-item]


# Values


@sandboxes
async def test_values(sandbox: bool) -> None:
    seen: list[Any] = []

    def take(
        color: Color = Color.RED,
        level: Level = Level.LOW,
        pair: tuple[int, str] = (1, "a"),
        node: Node | None = None,
        options: Options | None = None,
        number: float = 1,
    ) -> Node:
        seen.append((color, level, pair, node, options, number))
        return Node("root", [node] if node else [])

    async with CodeExecutor(tools=[take], sandbox=sandbox) as executor:
        await executor.execute("from mcptools.app import take")
        assert await text(executor, "take.run().name") == "'root'"
        code = (
            "node = {'name': 'n', 'children': [{'name': 'm'}]}\n"
            "take.run(color='blue', level=2, pair=[3, 'x'], node=node, options={'deep': True},"
            " number=2).children[0].children[0].name"
        )
        assert await text(executor, code) == "'m'"
    assert seen == [
        (Color.RED, Level.LOW, (1, "a"), None, None, 1),
        (Color.BLUE, Level.HIGH, (3, "x"), Node("n", [Node("m")]), {"deep": True}, 2.0),
    ]
    assert isinstance(seen[1][5], float)


async def test_arguments_of_hostile_code() -> None:
    """The function gets only what has its types, whatever the code sends."""
    seen: list[Any] = []

    def take(a: int, node: Node | None = None, need: Need | None = None) -> None:
        seen.append(a)

    raw = "from ipybox.tool_exec.client import ToolRunner\n" + (
        "runner = ToolRunner(server_name='app', server_id='application:app')\n"
        "def call(**arguments): return runner.run_sync('take', arguments)"
    )
    async with CodeExecutor(tools=[take]) as executor:
        await executor.execute(raw)
        for arguments, message in [
            ("", "'a' is missing"),
            ("a='1'", "an integer is needed, not '1'"),
            ("a=True", "an integer is needed"),
            ("a=1.5", "an integer is needed"),
            ("a=1, b=2", "there is no 'b'"),
            ("a=1, node={}", "'name' is missing"),
            ("a=1, node={'name': ''}", "a node needs a name"),
            ("a=1, node={'name': 'x', 'children': [{'name': 1}]}", "children[0].name: a string"),
            ("a=1, node={'name': 'x', 'more': 1}", "there is no 'more'"),
            ("a=1, need={}", "'name' is missing"),
            ("a=1, **{'self': 1}", "there is no 'self'"),
        ]:
            assert message in await error(executor, f"call({arguments})"), arguments
        deep = "deep = {'name': 'x'}\nfor _ in range(100): deep = {'name': 'x', 'children': [deep]}"
        assert "Error" in await error(executor, deep + "\ncall(a='x', node=deep)")
        assert seen == []
        await executor.execute("call(a=1.0)")
    assert seen == [1]


async def test_results() -> None:
    values: dict[str, Any] = {
        "none": None,
        "list": [1, "a", None, True, 1.5],
        "nested": {"a": {"b": [(1, 2)]}},
        "enum": Color.BLUE,
        "dataclass": Need(name="x"),
        "text": "a\nb\ud800",
        "nan": float("nan"),
        "object": object(),
        "bytes": b"x",
        "keys": {1: 2},
        "huge": "x" * (65 << 20),
    }
    values["circle"] = circle = []  # type: ignore[var-annotated]
    circle.append(circle)

    def get(name: str):  # type: ignore[no-untyped-def]
        return values[name]

    def typed(name: str) -> list[int]:
        return values[name]  # type: ignore[no-any-return]

    async with CodeExecutor(tools=[get, typed]) as executor:
        await executor.execute("from mcptools.app import get, typed")
        for name, shown in [
            ("none", ""),
            ("list", "[1, 'a', None, True, 1.5]"),
            ("nested", "{'a': {'b': [[1, 2]]}}"),
            ("enum", "'blue'"),
            ("dataclass", "{'name': 'x'}"),
            ("text", r"'a\nb\ud800'"),
        ]:
            assert await text(executor, f"get.run(name={name!r})") == shown
        for name, message in [
            ("nan", "a finite number is needed, not nan"),
            ("object", "has no JSON form"),
            ("bytes", "b'x' has no JSON form"),
            ("keys", "{1: 2} has no JSON form"),
            ("circle", "contains itself"),
            ("huge", "the result cannot be sent: too large"),
        ]:
            assert message in await error(executor, f"get.run(name={name!r})"), name
        assert "an integer is needed, not 'a'" in await error(executor, "typed.run(name='list')")
        assert "the result: a list is needed" in await error(executor, "typed.run(name='none')")
        assert await text(executor, "get.run(name='enum')") == "'blue'"


async def test_contents() -> None:
    image = Content(type="image", mimeType="image/png", data="aGVsbG8=")

    def one() -> Content:
        return image

    def several() -> list[Content]:
        return [Content(type="text", text="a plot"), image]

    def untyped(is_list: bool):  # type: ignore[no-untyped-def]
        return [image] if is_list else {"type": "image"}

    async with CodeExecutor(tools=[one, several, untyped]) as executor:
        await executor.execute("from mcptools.app import one, several, untyped")
        code = (
            "[image.data for image in one.run().images + several.run().images], several.run() + '!'"
        )
        assert await text(executor, code) == "([b'hello', b'hello'], 'a plot!')"
        assert await text(executor, "untyped.run(is_list=False)") == "{'type': 'image'}"


# Functions


async def test_kinds_of_functions() -> None:
    class Counter:
        """Counts."""

        def __init__(self) -> None:
            self.n = 0

        def count(self, by: int = 1) -> int:
            """Counts further."""
            self.n += by
            return self.n

        async def __call__(self, by: int) -> int:
            return self.count(by)

    counter = Counter()

    def makes_coroutine(seconds: float) -> Any:
        return wait(seconds)

    schema = {
        "type": "object",
        "properties": {"x": {"type": "integer"}},
        "additionalProperties": True,
    }
    tools = {
        "one": [add, wait, counter.count, makes_coroutine],
        "two": [
            Tool.from_function(counter, "counter"),
            Tool.from_function(functools.partial(add, b=40), "partial"),
            Tool("Raw.Tool", "Any arguments.", schema, lambda **given: sorted(given)),
            Tool("typed", "", schema, lambda x: [x], {"type": "array"}),
        ],
        "none": [],
    }
    async with CodeExecutor(tools=tools) as executor:
        await executor.execute("from mcptools.one import *; import mcptools, mcptools.one as one")
        await executor.execute("from mcptools.one import add, wait, count, makes_coroutine")
        await executor.execute("from mcptools.two import counter, partial, raw_tool, typed")
        assert await text(executor, "add.run(a=1), add.run(a=1, b=5)") == "(3, 6)"
        assert (
            await text(executor, "count.run(), count.run(by=3), counter.run(by=2)") == "(1, 4, 6)"
        )
        assert await text(executor, "partial.run(a=2)") == "42"
        main = threading.current_thread().name
        assert await text(executor, "wait.run(seconds=0)") == repr(main)
        assert await text(executor, "makes_coroutine.run(seconds=0)") == repr(main)
        assert await text(executor, "raw_tool.run(z=1, x=2)") == '\'["x", "z"]\''
        assert await text(executor, "typed.run(x=2)") == "[2]"
        found = await text(executor, "mcptools.describe('one.count')")
        assert "Counts further." in found and "by: int = 1" in found
        assert "mcptools.none" in await error(executor, "import mcptools.none")


async def test_plain_functions_do_not_block_the_loop() -> None:
    """Many at once, each in a thread; coroutine functions run in the loop."""
    meeting = threading.Barrier(9)

    def meet() -> str:
        meeting.wait(60)
        return threading.current_thread().name

    code = (
        "from concurrent.futures import ThreadPoolExecutor\n"
        "from mcptools.app import meet\n"
        "with ThreadPoolExecutor(8) as pool:\n"
        "    names = list(pool.map(lambda _: meet.run(), range(8)))\n"
        "len(set(names)), all('ipybox-tool' in name for name in names)"
    )
    async with CodeExecutor(tools=[meet]) as executor:
        task = asyncio.create_task(text(executor, code))
        await asyncio.to_thread(meeting.wait, 60)
        assert await task == "(8, True)"


async def test_exceptions() -> None:
    class Mine(Exception):
        pass

    class Silent(Exception):
        def __str__(self) -> str:
            raise RuntimeError("no text")

    kinds: dict[str, Any] = {
        "value": ValueError("not so"),
        "mine": Mine("a\nb"),
        "empty": KeyError(),
        "silent": Silent(),
        "long": ValueError("x" * 100_000),
        "exit": SystemExit(3),
        "stop": StopIteration(1),
        "timeout": TimeoutError("late"),
    }

    def fail(kind: str) -> None:
        raise kinds[kind]

    async def fail_later(kind: str) -> None:
        raise kinds[kind]

    async with CodeExecutor(tools=[fail, fail_later]) as executor:
        await executor.execute("from mcptools.app import fail, fail_later")
        for kind, shown in [
            ("value", "ToolRunnerError: app.fail: ValueError: not so"),
            ("empty", "ToolRunnerError: app.fail: KeyError"),
            ("silent", "ToolRunnerError: app.fail: Silent"),
            ("exit", "ToolRunnerError: app.fail: SystemExit: 3"),
            ("stop", "ToolRunnerError: app.fail: StopIteration: 1"),
            ("timeout", "ToolRunnerError: app.fail: TimeoutError: late"),
        ]:
            assert await error(executor, f"fail.run(kind={kind!r})") == shown
        assert await error(executor, "fail_later.run(kind='value')") == (
            "ToolRunnerError: app.fail_later: ValueError: not so"
        )
        assert len(await error(executor, "fail.run(kind='long')")) < 11_000
        with pytest.raises(CodeExecutionError) as raised:
            await executor.execute("fail.run(kind='mine')")
        assert "Mine: a\nb" in str(raised.value)
        assert __file__ not in str(raised.value) and "raise kinds" not in str(raised.value)


# Approvals


async def test_approvals(workspace: Path) -> None:
    rules = workspace / "rules.json"
    rules.write_text('{"rules": [{"server": "app", "tool": "wait", "decision": "deny"}]}')
    calls: list[int] = []

    def note(n: int) -> None:
        calls.append(n)

    options: dict[str, Any] = {"tools": [note, wait], "approval_rules": rules}
    async with CodeExecutor(**options) as executor:
        for accepts in (True, False):
            items = []
            try:
                async for item in executor.stream("from mcptools.app import note; note.run(n=1)"):
                    items.append(item)
                    if isinstance(item, ApprovalRequest):
                        assert calls == [1] * (not accepts)
                        await (item.accept() if accepts else item.reject())
            except CodeExecutionError as raised:
                assert not accepts and "ApprovalRejectedError" in str(raised)
            request = items[0]
            assert isinstance(request, ApprovalRequest)
            assert (request.server_name, request.tool_name) == ("app", "note")
            assert request.tool_args == {"n": 1}
            assert accepts == any(isinstance(item, CodeExecutionResult) for item in items)
        assert calls == [1]
        await executor.execute("note.run(n=2)")
        assert calls == [1, 2]
        denied = await error(executor, "from mcptools.app import wait; wait.run(seconds=0)")
        assert denied.startswith("ApprovalRejectedError")


async def test_the_timeout_of_the_cell_is_paused_while_it_asks() -> None:
    async with CodeExecutor(tools=[add]) as executor:
        await executor.execute("from mcptools.app import add")
        async for item in executor.stream("add.run(a=1)", timeout=1):
            if isinstance(item, ApprovalRequest):
                await asyncio.sleep(2)
                await item.accept()
            elif isinstance(item, CodeExecutionResult):
                assert item.text == "3"


# What ends a call


@sandboxes
async def test_cancelled_calls(sandbox: bool) -> None:
    begun: list[str] = []
    ended: list[str] = []

    async def forever() -> None:
        begun.append("begun")
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            ended.append("cancelled")
            raise

    async with CodeExecutor(tools=[forever, add], sandbox=sandbox) as executor:
        await executor.execute("from mcptools.app import forever")
        with pytest.raises(CodeExecutionTimeout):
            await executor.execute("forever.run()", 5)
        await until(lambda: len(ended) == 1)
        task = asyncio.create_task(executor.execute("forever.run()"))
        await until(lambda: len(begun) == 2)
        executor.cancel()
        assert (await task).is_cancelled
        await until(lambda: len(ended) == 2)
        task = asyncio.create_task(executor.execute("forever.run()"))
        await until(lambda: len(begun) == 3)
        await executor.reset()
        with pytest.raises(CodeExecutionError):
            await task
        await until(lambda: len(ended) == 3)
        assert await text(executor, "from mcptools.app import add; add.run(a=1)") == "3"
        task = asyncio.create_task(
            executor.execute("from mcptools.app import forever; forever.run()")
        )
        await until(lambda: len(begun) == 4)
    with pytest.raises(CodeExecutionError):
        await task
    await until(lambda: len(ended) == 4)


async def test_a_thread_that_does_not_end() -> None:
    """Its cell ends, its result is dropped, and other calls run."""
    go = threading.Event()
    returned: list[int] = []

    def block() -> int:
        go.wait(60)
        returned.append(1)
        return 1

    async with CodeExecutor(tools=[block, add]) as executor:
        await executor.execute("from mcptools.app import block")
        with pytest.raises(CodeExecutionTimeout):
            await executor.execute("block.run()", 5)
        assert await text(executor, "from mcptools.app import add; add.run(a=1)") == "3"
    go.set()
    await until(lambda: returned == [1])


async def test_a_task_that_cancels_itself() -> None:
    async def give_up() -> None:
        asyncio.current_task().cancel()  # type: ignore[union-attr]
        await asyncio.sleep(10)

    async with CodeExecutor(tools=[give_up]) as executor:
        shown = await error(executor, "from mcptools.app import give_up; give_up.run()")
        assert shown.endswith("the application cancelled the call")


def test_the_loop_does_not_run() -> None:
    """A call after the loop of the start has ended: the code gets an error, and does not wait."""
    loop = asyncio.new_event_loop()
    executor = CodeExecutor(tools=[wait, add])
    loop.run_until_complete(executor.start())
    loop.close()
    code = "from mcptools.app import add, wait; print(add.run(a=1)); wait.run(seconds=0)"

    async def use() -> None:
        assert "does not run any more" in await error(executor, code)
        await executor.stop()

    asyncio.run(use())


# Sessions


@sandboxes
async def test_the_tools_are_there_in_each_kernel(sandbox: bool) -> None:
    names: list[str] = []

    def tell(name: str) -> None:
        names.append(name)

    code = "from mcptools.app import tell; tell.run(name={!r})"
    async with CodeExecutor(tools=[tell], sandbox=sandbox) as executor:
        await executor.execute(code.format("first"))
        await executor.reset()
        await executor.execute(code.format("after a reset"))
        with pytest.raises(CodeExecutionError, match="SIGKILL"):
            await executor.execute("import os; os.kill(os.getpid(), 9)")
        await executor.execute(code.format("after a death"))
        checkpoint = await executor.checkpoint()
        left, right = await executor.fork(2)
        (third,) = await checkpoint.branch()
        for name, branch in (("left", left), ("right", right), ("third", third)):
            await branch.execute(f"tell.run(name={name!r})")
            await branch.stop()
        await checkpoint.restore()
        await executor.execute("tell.run(name='restored')")
    assert names == [
        "first",
        "after a reset",
        "after a death",
        "left",
        "right",
        "third",
        "restored",
    ]


@sandboxes
async def test_beside_an_mcp_server(sandbox: bool) -> None:
    await generate_mcp_sources("work", scripted_server.params("work"), Path("mcptools"))
    async with CodeExecutor(tools={"mine": [add]}, sandbox=sandbox) as executor:
        code = (
            "import mcptools\n"
            "from mcptools.mine import add as mine\nfrom mcptools.work import add as theirs\n"
            "mine.run(a=1), theirs.run(theirs.Params(a=1, b=2)).sum"
        )
        assert await text(executor, code) == "(3, 3)"
        found = await text(executor, "mcptools.search('add')")
        assert "# mine.add" in found and "# work.add" in found


async def test_names_that_the_core_refuses() -> None:
    for tools, match in [
        ({"ipybox": [add]}, 'must not be "ipybox"'),
        ({"a-b": [add]}, "cannot be the name"),
        ([Tool("a b", "", {}, add)], '"name" must have'),
    ]:
        with pytest.raises(InvalidError, match=match):
            await CodeExecutor(tools=tools).start()


async def test_pool() -> None:
    count = 0

    def count_up() -> int:
        nonlocal count
        count += 1
        return count

    async with ExecutorPool(2, tools=iter([count_up])) as pool:
        for _ in range(3):
            async with pool.session() as executor:
                await executor.execute("from mcptools.app import count_up; count_up.run()")
    assert count == 3


async def test_many_calls() -> None:
    """Calls of several sessions reach the functions of their own, and nothing is left."""

    async def run(number: int) -> None:
        async def mine() -> int:
            return number

        async with CodeExecutor(tools=[mine]) as executor:
            code = "from mcptools.app import mine; sum(mine.run() for _ in range(50))"
            assert await text(executor, code) == str(50 * number)

    await asyncio.gather(*(run(number) for number in range(5)))


def double(n: int) -> int:
    """Twice the number."""
    return 2 * n


RECORDED = (
    "from mcptools.app.double import run, Params\nrun(Params(n=4))",
    "from mcptools import app\nNone",
    "6 * 7",
)


async def test_replay_of_their_record(workspace: Path, home: harness.Place) -> None:
    """A replay has no functions of the program, and says so. Other cells are run."""
    async with CodeExecutor(tools=[double], record=workspace / "r.jsonl") as executor:
        for code in RECORDED:
            await executor.execute(code)
    record = (workspace / "r.jsonl").read_text()
    assert '"type":"tools"' in record and '"packages":["app"]' in record
    command = [home.environ["IPYBOX_BIN"], "record", "--replay", "--no-sandbox", "r.jsonl"]
    done = harness.run(command, home, cwd=workspace)
    assert done.returncode == 1, done.stderr
    assert "cell 1 differs: mcptools" in done.stdout and "cell 2 differs: mcptools" in done.stdout
    hint = "made of functions of the program that recorded the session"
    assert done.stdout.count(hint) == 2 and "1 the same, 2 differing" in done.stdout
    done = harness.run([*command, "--json"], home, cwd=workspace)
    first, _, third, _ = map(json.loads, done.stdout.splitlines())
    assert hint in first["hint"] and "hint" not in third
