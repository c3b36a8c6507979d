# SPDX-License-Identifier: Apache-2.0
"""The executor for smolagents, alone and in an agent with a scripted model."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import PIL.Image
import pytest
from ipybox import (
    ApprovalRequest,
    CallRefusedError,
    CodeExecutionError,
    CodeExecutionTimeout,
    KernelLostError,
    LimitExceededError,
)
from ipybox.integrations import background
from ipybox.integrations.causes import find_error
from ipybox.integrations.smolagents import IpyboxExecutor
from smolagents import CodeAgent, FinalAnswerTool, tool
from smolagents.local_python_executor import PythonExecutor
from smolagents.models import ChatMessage, MessageRole, Model
from smolagents.serialization import SerializationError
from smolagents.utils import AgentError

Make = Callable[..., IpyboxExecutor]


@tool
def look_up(city: str, days: int = 1) -> dict:
    """The weather.

    Args:
        city: The city.
        days: How many days.
    """
    return {"city": city, "days": days, "range": (1, 2)}


@tool
def turn(image: Any) -> Any:
    """Turns an image.

    Args:
        image: The image.
    """
    return image.rotate(90, expand=True)


@tool
def fail(text: str) -> str:
    """Fails.

    Args:
        text: Why.
    """
    raise ValueError(text)


TOOLS = {each.name: each for each in (look_up, turn, fail)}


class ScriptedModel(Model):
    def __init__(self, *steps: str) -> None:
        super().__init__(model_id="scripted")
        self.steps = list(steps)

    def generate(self, messages: list[ChatMessage], **_: Any) -> ChatMessage:
        return ChatMessage(MessageRole.ASSISTANT, f"<code>\n{self.steps.pop(0)}\n</code>")


@pytest.fixture
def make() -> Iterator[Make]:
    made = []

    def make(**options: Any) -> IpyboxExecutor:
        made.append(IpyboxExecutor(**options))
        return made[-1]

    yield make
    for executor in made:
        executor.cleanup()


def error_of(executor: IpyboxExecutor, code: str) -> Exception | None:
    with pytest.raises(AgentError) as caught:
        executor(code)
    return find_error(caught.value)


def test_values(make: Make) -> None:
    executor = make()
    assert isinstance(executor, PythonExecutor)
    for code, output, logs in [
        ("x = 1", None, ""),
        ("x + 1", 2, ""),
        ("print('a'); 'b'", "b", "a\n"),
        ("print('a')", None, "a\n"),
        ("[x, {'a': (1,)}]", "[1, {'a': (1,)}]", ""),
        ("x;", None, ""),
        ("float('inf')", float("inf"), ""),
    ]:
        result = executor(code)
        assert (result.output, result.logs, result.is_final_answer) == (output, logs, False), code
    image = executor("from PIL import Image\nImage.new('RGB', (3, 2))").output
    assert isinstance(image, PIL.Image.Image) and image.size == (3, 2)
    assert executor("class A:\n    def __repr__(self): return 'an A'\nA()").output == "an A"


def test_final_answers(make: Make) -> None:
    executor = make()
    executor.send_tools({"final_answer": FinalAnswerTool()})
    result = executor("print('so far')\nfinal_answer({'a': (1, {2}), 'b': b'x'})\nprint('never')")
    assert (result.output, result.is_final_answer) == ({"a": (1, {2}), "b": b"x"}, True)
    assert result.logs.strip() == "so far"
    # It is no Exception, and what cannot be passed is the code's mistake.
    assert executor("try: final_answer(1)\nexcept Exception: pass").output == 1
    error = error_of(executor, "final_answer(object())")
    assert isinstance(error, CodeExecutionError) and error.name == "SerializationError"


def test_output_is_limited(make: Make) -> None:
    executor = make(max_print_outputs_length=1000)
    logs = executor("print('x' * 100_000)").logs
    assert len(logs) < 1200 and "truncated" in logs


def test_tools_and_approvals(make: Make) -> None:
    asked: list[str] = []

    def approve(request: ApprovalRequest) -> bool:
        asked.append(str(request)[:60])
        return request.tool_args.get("city") != "Paris"

    executor = make(approve=approve)
    executor.send_tools(TOOLS)
    assert executor("look_up('Rome')['range']").output == "(1, 2)"
    assert executor("look_up('Oslo', days=3)['days']").output == 3
    executor.send_variables({"image": PIL.Image.new("RGB", (3, 2))})
    assert executor("turn(image).size").output == "(2, 3)"
    error = error_of(executor, "look_up('Paris')")
    assert isinstance(error, CallRefusedError)
    error = error_of(executor, "fail('too bad')")
    assert type(error) is CodeExecutionError and "ValueError: too bad" in str(error)
    for code in ("look_up('a', 1, 2)", "look_up('a', city='b')"):
        error = error_of(executor, code)
        assert isinstance(error, CodeExecutionError) and error.name == "TypeError"
    assert asked[:2] == ["app.look_up(city='Rome')", "app.look_up(city='Oslo', days=3)"]
    assert asked[-2:] == ["app.look_up(city='Paris')", "app.fail(text='too bad')"]


def test_an_own_final_answer_is_a_tool(make: Make) -> None:
    class Shout(FinalAnswerTool):
        def forward(self, answer: Any) -> Any:
            return str(answer).upper()

    asked = []

    def approve(request: ApprovalRequest) -> bool:
        asked.append(request.tool_name)
        return True

    executor = make(approve=approve)
    executor.send_tools({"final_answer": Shout()})
    assert executor("final_answer('a')").output == "A"
    assert asked == ["final_answer"]


def test_failures_differ(make: Make) -> None:
    executor = make(timeout=1, limits={"cpuSeconds": 30, "memory": "2G"})
    executor.send_tools(TOOLS | {"final_answer": FinalAnswerTool()})
    executor.send_variables({"name": "Ann"})
    error = error_of(executor, "print('so far'); 1 / 0")
    assert type(error) is CodeExecutionError and error.name == "ZeroDivisionError"
    assert executor.state["_print_outputs"].strip() == "so far"
    error = error_of(executor, "import time; x = 1; print('begun', flush=True); time.sleep(1000)")
    assert isinstance(error, CodeExecutionTimeout)
    assert executor.state["_print_outputs"].strip() == "begun"
    assert executor("x").output == 1
    error = error_of(executor, "import os; os._exit(3)")
    assert type(error) is KernelLostError
    # The next kernel has the tools and the variables of the agent, and no others.
    assert executor("(name, look_up('Rome')['city'], 'x' in globals())").output == (
        "('Ann', 'Rome', False)"
    )
    background.run(executor._session._executor.reset())  # type: ignore[union-attr]
    error = error_of(executor, "name")
    assert isinstance(error, (KernelLostError, CodeExecutionError))
    assert executor("name").output == "Ann"


def test_a_limit(make: Make) -> None:
    executor = make(limits={"cpuSeconds": 1}, timeout=100)
    error = error_of(executor, "while True: pass")
    assert isinstance(error, LimitExceededError) and "limits.cpuSeconds" in str(error)


def test_it_is_sandboxed(make: Make, outside: Path) -> None:
    write = f"open({str(outside / 'x')!r}, 'w').close()"
    error = error_of(make(), write)
    assert isinstance(error, CodeExecutionError) and error.name in ("OSError", "FileNotFoundError")
    assert not (outside / "x").exists()
    make(sandbox=False)(write)
    assert (outside / "x").exists()


def test_the_workspace(make: Make, outside: Path) -> None:
    executor = make(workspace=outside)
    executor("open('y', 'w').write('text')")
    assert (outside / "y").read_text() == "text" and executor.workspace == outside
    executor.cleanup()
    assert (outside / "y").exists()
    with pytest.raises(RuntimeError, match="cleaned up"):
        executor("1")


def test_what_cannot_be_sent(make: Make) -> None:
    executor = make()
    with pytest.raises(SerializationError):
        executor.send_variables({"x": object()})
    executor("1")
    with pytest.raises(RuntimeError, match="fail, look_up, turn: tools that are added after"):
        executor.send_tools(TOOLS)


def test_an_agent(make: Make) -> None:
    executor = make(timeout=60)
    model = ScriptedModel(
        "found = look_up(city, days=2)\nprint(found)",
        "found['days'] / 0",
        "import matplotlib.pyplot as plt\nplt.plot([1, 2]); plt.show()\nfinal_answer(found)",
        "final_answer(found['city'])",
    )
    with CodeAgent(
        tools=[look_up],
        model=model,
        executor=executor,
        additional_authorized_imports=["*"],
        step_callbacks=[executor.observe_images],
        verbosity_level=-1,
    ) as agent:
        answer = agent.run("go", additional_args={"city": "Rome"})
        assert answer == {"city": "Rome", "days": 2, "range": (1, 2)}
        first, second, third = agent.memory.steps[1:4]
        assert "'city': 'Rome'" in first.observations
        assert isinstance(find_error(second.error), CodeExecutionError)
        assert len(third.observations_images) == 1
        # Variables are kept between runs.
        assert agent.run("again", reset=False) == "Rome"
        workspace = executor.workspace
        assert workspace is not None and workspace.exists()
    assert not workspace.exists()
