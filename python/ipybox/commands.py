# SPDX-License-Identifier: Apache-2.0
"""Commands that run beside a kernel: what `CodeExecutor.run_command` takes and returns."""

from __future__ import annotations

import base64
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

from .core.errors import ExecutionTimeout

MAX_OUTPUT_BYTES = 10 * 1024 * 1024
SHELL = "/bin/sh"


@dataclass
class CommandResult:
    """How a command ended, and what it wrote.

    Attributes:
        exit_status: 0 to 255; None if a signal ended it.
        signal: The number of the signal that ended it; else None.
        stdout: What it wrote to standard output.
        stderr: What it wrote to standard error.
        stdout_cut: Whether there was more than `max_output`, of which the beginning was kept.
        stderr_cut: Likewise.
        limit: The limit of the sandbox that ended it, for people; else None.
    """

    exit_status: int | None
    signal: int | None
    stdout: bytes
    stderr: bytes
    stdout_cut: bool = False
    stderr_cut: bool = False
    limit: str | None = None

    @property
    def returncode(self) -> int:
        """As in `subprocess`: the exit status, or the number of the signal below 0."""
        return self.exit_status if self.exit_status is not None else -(self.signal or 0)

    @property
    def ok(self) -> bool:
        """Whether the exit status is 0."""
        return self.exit_status == 0


class CommandTimeout(ExecutionTimeout):
    """A command exceeded its timeout, and was killed with everything that it had started.

    Attributes:
        result: What it had written until then.
    """

    def __init__(self, message: str, result: CommandResult) -> None:
        super().__init__(message)
        self.result = result


def make_params(
    command: str | Sequence[str | bytes | PurePath],
    input: bytes | str | None,
    env: Mapping[str, str] | None,
    cwd: str | PurePath | None,
    timeout: float | None,
    max_output: int,
) -> dict[str, Any]:
    """The parameters of `session.run_command`, but the session."""
    if isinstance(command, str):
        argv = [SHELL, "-c", command]
    else:
        argv = [os.fsdecode(argument) for argument in command]
    if not argv or not argv[0]:
        raise ValueError("a command needs a program")
    if any("\0" in argument for argument in argv):
        raise ValueError("an argument of a command cannot have a NUL")
    params: dict[str, Any] = {"argv": argv, "max_output": max_output}
    if input is not None:
        data = input.encode() if isinstance(input, str) else bytes(input)
        params["input"] = base64.b64encode(data).decode()
    if env is not None:
        params["env"] = dict(env)
    if cwd is not None:
        params["cwd"] = str(cwd)
    if timeout is not None:
        params["timeout"] = timeout
    return params


def read_answer(answer: dict[str, Any], timeout: float | None) -> CommandResult:
    """The result.

    Raises:
        CommandTimeout: If the command exceeded its timeout.
    """
    result = CommandResult(
        exit_status=answer["exit_status"],
        signal=answer["signal"],
        stdout=base64.b64decode(answer["stdout"]),
        stderr=base64.b64decode(answer["stderr"]),
        stdout_cut=answer["stdout_cut"],
        stderr_cut=answer["stderr_cut"],
        limit=answer["limit"],
    )
    if answer["timed_out"]:
        raise CommandTimeout(f"the command ran longer than {timeout:g} s, and was killed", result)
    return result
