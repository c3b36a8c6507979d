# SPDX-License-Identifier: Apache-2.0
"""`find_error`: what has failed, behind the error that a framework reports."""

from __future__ import annotations

from collections.abc import Iterator

from ..core import CoreError
from ..results import CodeExecutionError, CodeExecutionTimeout


def find_error(error: BaseException | None) -> Exception | None:
    """The error of ipybox behind an error of a framework.

    Evaluations use it to tell the mistakes of a model from other failures:

        match find_error(step.error):
            case LimitExceededError() | CodeExecutionTimeout(): ...  # it took too much
            case CallRefusedError(): ...  # it called a tool that it may not call
            case KernelLostError() | CoreError(): ...  # the kernel, or ipybox, has failed
            case CodeExecutionError(): ...  # the code raised an exception

    Args:
        error: The error of the framework, whose causes and contexts are searched.

    Returns:
        A CodeExecutionError or one of its classes, a CodeExecutionTimeout, or a CoreError. None:
        there is none.
    """
    for each in _chain(error):
        if isinstance(each, (CodeExecutionError, CodeExecutionTimeout, CoreError)):
            return each
    return None


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or error.__context__
