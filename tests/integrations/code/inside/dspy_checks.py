# SPDX-License-Identifier: Apache-2.0
"""The interpreter for DSPy, alone, and in RLM and Flex with a scripted model."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import dspy
import pytest
from dspy.primitives.code_interpreter import (
    CodeExecutionError as OfCode,
)
from dspy.primitives.code_interpreter import (
    CodeInterpreterError,
    FinalOutput,
)
from dspy.utils import DummyLM
from ipybox import (
    ApprovalRequest,
    CallRefusedError,
    CodeExecutionError,
    CodeExecutionTimeout,
    KernelLostError,
    LimitExceededError,
)
from ipybox.integrations.causes import find_error
from ipybox.integrations.dspy import IpyboxInterpreter

Make = Callable[..., IpyboxInterpreter]
FIELDS = [{"name": "answer"}, {"name": "n", "type": "int"}]


def search(query: str, limit: int = 1) -> list[str]:
    """Searches."""
    return [query] * limit


async def search_soon(query: str) -> str:
    """Searches."""
    return query


@pytest.fixture
def make() -> Iterator[Make]:
    made = []

    def make(*args: Any, **options: Any) -> IpyboxInterpreter:
        made.append(IpyboxInterpreter(*args, **options))
        return made[-1]

    yield make
    for interpreter in made:
        interpreter.shutdown()


def error_of(interpreter: IpyboxInterpreter, code: str) -> tuple[type, Exception | None]:
    with pytest.raises((CodeInterpreterError, SyntaxError)) as caught:
        interpreter.execute(code)
    return type(caught.value), find_error(caught.value)


def test_values(make: Make) -> None:
    interpreter = make()
    assert isinstance(interpreter, dspy.CodeInterpreter)
    for code, result in [
        ("x = 1", None),
        ("x", 1),
        ("print('a'); print('b')", "a\nb"),
        ("print('a'); x", 1),
        ("import json; json.dumps({'a': x})", '{"a": 1}'),
        ("{'a': [x, None, True]}", {"a": [1, None, True]}),
        ("{x}", "{1}"),
        ("float('nan')", "nan"),
        ("!echo hi", "hi"),
    ]:
        assert interpreter.execute(code) == result, code


def test_variables(make: Make) -> None:
    interpreter = make({"search": search})
    given = {"text": "ä\n'\"\\" * 1000, "more": {"a": [1.5, None]}}
    assert interpreter.execute("text, more", given) == [given["text"], given["more"]]
    interpreter.execute("more['a'] = 1; mine = 2")
    assert interpreter.execute("more, mine", given) == [given["more"], 2]
    for variables, said in [
        ({"a b": 1}, "'a b' cannot be the name"),
        ({"SUBMIT": 1}, "'SUBMIT' cannot be the name"),
        ({"search": 1}, "the names of tools: search"),
        ({"x": object()}, "variables must be JSON"),
        ({"x": float("nan")}, "variables must be JSON"),
        ({"x": "x" * 30_000_000}, "the limit is"),
    ]:
        with pytest.raises(CodeInterpreterError, match=said):
            interpreter.execute("1", variables)
    assert interpreter.execute("mine") == 2


def test_submit(make: Make) -> None:
    interpreter = make()
    assert interpreter.execute("SUBMIT(5)") == FinalOutput({"output": 5})
    interpreter.output_fields = FIELDS
    for code in ("SUBMIT('a', 1)", "SUBMIT(answer='a', n=1)", "SUBMIT('a', n=1); print('never')"):
        assert interpreter.execute(code) == FinalOutput({"answer": "a", "n": 1})
    assert interpreter.execute(
        "import numpy as np; SUBMIT(np.arange(2), {np.int64(3)})"
    ) == FinalOutput({"answer": [0, 1], "n": [3]})
    for given in ("'a'", "'a', 1, 2", "answer=1, m=2", "object(), 1"):
        kind, error = error_of(interpreter, f"SUBMIT({given})")
        assert kind is OfCode and isinstance(error, CodeExecutionError)
        assert error.name == "TypeError"


def test_tools_and_approvals(make: Make) -> None:
    asked: list[str] = []

    async def approve(request: ApprovalRequest) -> bool:
        asked.append(str(request))
        return request.tool_args["query"] != "no"

    interpreter = make({"search": search}, approve=approve)
    interpreter.start()
    interpreter.tools["search_soon"] = search_soon  # as DSPy does
    assert interpreter.execute("search('a', limit=2)") == ["a", "a"]
    assert interpreter.execute("search_soon(query='b')") == "b"
    interpreter.tools["search"] = lambda query: "replaced"
    assert interpreter.execute("search('c')") == "replaced"
    kind, error = error_of(interpreter, "search('no')")
    assert kind is OfCode and isinstance(error, CallRefusedError)
    assert asked == [
        "app.search(query='a', limit=2)",
        "app.search_soon(query='b')",
        "app.search(query='c')",
        "app.search(query='no')",
    ]
    interpreter.tools["late"] = search
    with pytest.raises(CodeInterpreterError, match="late: tools that are added after"):
        interpreter.execute("1")
    del interpreter.tools["late"]
    assert interpreter.execute("1") == 1


def test_a_tool_sees_the_context_of_the_caller(make: Make) -> None:
    interpreter = make({"model": lambda: dspy.settings.lm.model})
    with dspy.context(lm=DummyLM([])):
        assert interpreter.execute("model()") == "dummy"


def test_a_tool_cannot_run_code(make: Make) -> None:
    interpreter = make()
    interpreter.tools["run"] = lambda: interpreter.execute("1")
    kind, error = error_of(interpreter, "run()")
    assert kind is OfCode and "the interpreter runs another cell already" in str(error)


def test_failures_differ(make: Make) -> None:
    interpreter = make(timeout=1)
    kind, error = error_of(interpreter, "print('so far'); 1 / 0")
    assert kind is OfCode and type(error) is CodeExecutionError
    kind, _ = error_of(interpreter, "def f(:")
    assert kind is SyntaxError
    with pytest.raises(OfCode, match="so far\n.*variables are kept") as caught:
        interpreter.execute("x = 1; import time; print('so far', flush=True); time.sleep(1000)")
    assert isinstance(find_error(caught.value), CodeExecutionTimeout)
    assert interpreter.execute("x") == 1
    # As the protocol demands, no fresh kernel takes its place.
    for code in ("import os; os._exit(1)", "1"):
        kind, error = error_of(interpreter, code)
        assert kind is CodeInterpreterError and type(error) is KernelLostError


def test_a_limit(make: Make) -> None:
    kind, error = error_of(make(limits={"cpuSeconds": 1}), "while True: pass")
    assert kind is CodeInterpreterError and isinstance(error, LimitExceededError)


def test_it_is_sandboxed(make: Make, outside: Path) -> None:
    write = f"open({str(outside / 'z')!r}, 'w').close()"
    kind, error = error_of(make(), write)
    assert kind is OfCode and not (outside / "z").exists()
    make(sandbox=False).execute(write)
    assert (outside / "z").exists()


def test_shutdown(make: Make) -> None:
    with make() as interpreter:
        interpreter.execute("x = 1")
        workspace = interpreter.workspace
        assert workspace is not None and workspace.exists()
    assert not workspace.exists()
    with pytest.raises(CodeInterpreterError, match="it was shut down"):
        interpreter.execute("x")


def test_rlm() -> None:
    """The model's code asks models, builds a sub-agent with a tool, and submits."""
    calls: list[str] = []

    def echo(text: str) -> str:
        """Returns the text."""
        calls.append(text)
        return text

    tool_call = dspy.ToolCalls.from_dict_list([{"name": "echo", "args": {"text": "hi"}}])
    submit = dspy.ToolCalls.from_dict_list([{"name": "submit", "args": {"answer": "echoed"}}])
    lm = DummyLM(
        [
            {"reasoning": "a", "code": "print(len(context)); part = llm_query('?')\nprint(part)"},
            {"answer": "from the model"},
            {
                "reasoning": "b",
                "code": "import dspy\nagent = dspy.ReActV2('question -> answer', tools=[echo])\n"
                "said = agent(question='hi').answer\nprint(said)",
            },
            {"next_thought": "c", "tool_calls": tool_call},
            {"next_thought": "d", "tool_calls": submit},
            {"reasoning": "e", "code": "SUBMIT(said + ' ' + part.splitlines()[-1])"},
        ]
    )
    with dspy.context(
        lm=lm, adapter=dspy.ChatAdapter(), interpreter_factory=IpyboxInterpreter.factory(timeout=60)
    ):
        rlm = dspy.RLM("context -> answer", tools=[echo])
        prediction = rlm(context="x" * 1_000_000)
    assert prediction.answer == "echoed from the model"
    assert "1000000" in prediction.trajectory[0]["output"]
    assert calls == ["hi"]
    instructions = rlm.generate_action.signature.instructions
    assert "SUBMIT" in instructions


def test_flex() -> None:
    """What an optimizer has written runs in the sandbox, calls a tool and prints."""

    def shout(text: str) -> str:
        """Shouts."""
        return text.upper()

    source = """
import dspy
class Answer(dspy.Module):
    def __init__(self):
        self.ask = dspy.Predict("question -> answer")
    def forward(self, question):
        print("asking")
        return dspy.Prediction(answer=shout(text=self.ask(question=question).answer))
"""
    flex = dspy.Flex(
        "question -> answer", tools=[shout], interpreter_factory=IpyboxInterpreter.factory()
    )
    flex._bind_code(source)
    with dspy.context(lm=DummyLM([{"answer": "four"}]), adapter=dspy.ChatAdapter()):
        assert flex(question="2 + 2").answer == "FOUR"


def test_the_factory_describes_itself() -> None:
    factory = IpyboxInterpreter.factory(timeout=5)
    assert "IPython" in vars(factory)["execution_instructions"]
    interpreter = factory()
    assert json.dumps(interpreter.execute("1")) == "1"
    interpreter.shutdown()
