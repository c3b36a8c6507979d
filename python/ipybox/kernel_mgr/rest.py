# SPDX-License-Identifier: Apache-2.0
"""Jupyter's REST interface to kernels, with the HTTP client of the standard library."""

from __future__ import annotations

import asyncio
import concurrent.futures
import http.client
import json
from pathlib import Path
from typing import Any
from urllib.parse import quote

from ..utils import arun

REQUEST_TIMEOUT_S = 60.0
# Time limit of requests in the background: a DELETE, and the wait for the id of a kernel after the
# caller has given up. They may delay the end of the program.
FORGET_TIMEOUT_S = 5.0
MAX_ANSWER = 16 * 1024 * 1024


class RestError(RuntimeError):
    """A server refused a request. The text is the server's.

    Attributes:
        status: The HTTP status.
    """

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


class KernelsApi:
    """Requests to one server. Each uses a new connection, because requests are rare."""

    def __init__(self, host: str, port: int, token: str | None) -> None:
        self.host = host
        self.port = port
        self.headers = {"Authorization": f"token {token}"} if token else {}

    async def create(
        self, working_dir: Path | None = None, timeout: float = REQUEST_TIMEOUT_S
    ) -> str:
        """Starts a kernel of the server's default kind, and returns its id.

        Args:
            working_dir: The directory in which the kernel starts and to which it returns after each
                cell, an absolute path. Only ipybox's gateway supports it.
            timeout: Seconds that the reply may take.

        Raises:
            TimeoutError: If it takes longer.
            OSError: If the server cannot be reached.
            RestError: If the server refuses.

        A kernel whose id comes later than that, or after the caller was cancelled, is ended.
        """
        # The client shows text. Other servers ignore it.
        body: dict[str, Any] = {"rich": False}
        if working_dir is not None:
            body["working_dir"] = str(working_dir)
        model = await self._create(body, timeout)
        kernel_id: str = model["id"]
        if working_dir is not None and "working_dir" not in model:
            self.forget(kernel_id)
            raise RestError(
                "a working_dir needs a gateway of ipybox, and this server is another one", 400
            )
        return kernel_id

    async def _create(self, body: dict[str, Any], timeout: float) -> dict[str, Any]:
        """Returns what the server says of the new kernel, with its id."""
        # Cancelled as soon as the caller waits no longer: then the thread ends the kernel.
        model: concurrent.futures.Future[dict[str, Any]] = concurrent.futures.Future()
        asyncio.get_running_loop().run_in_executor(None, self._create_sync, body, timeout, model)
        try:
            return await asyncio.wait_for(asyncio.wrap_future(model), timeout)
        except (asyncio.TimeoutError, asyncio.CancelledError):
            if not model.cancel() and model.exception() is None:
                self.forget(model.result()["id"])  # it came at that moment
            raise

    def _create_sync(
        self, body: dict[str, Any], timeout: float, model: concurrent.futures.Future[dict[str, Any]]
    ) -> None:
        try:
            made = self._request_sync("POST", "/api/kernels", body, timeout + FORGET_TIMEOUT_S)
            kernel_id = _id_of(made)
        except BaseException as error:
            if model.set_running_or_notify_cancel():
                model.set_exception(error)
            return
        if model.set_running_or_notify_cancel():
            model.set_result(made)
            return
        try:
            self._request_sync("DELETE", _path_of(kernel_id), None, FORGET_TIMEOUT_S)
        except (OSError, RuntimeError):
            pass  # the server has ended, and the kernel with it

    async def delete(self, kernel_id: str) -> None:
        """Ends a kernel. It is not an error if the kernel has ended already."""
        try:
            await self._request("DELETE", _path_of(kernel_id))
        except RestError as error:
            if error.status != 404:
                raise

    def forget(self, kernel_id: str) -> None:
        """Ends a kernel in the background. Errors are ignored.

        Only the end of the event loop waits for the request.
        """
        loop = asyncio.get_running_loop()
        ending = loop.run_in_executor(
            None, self._request_sync, "DELETE", _path_of(kernel_id), None, FORGET_TIMEOUT_S
        )
        ending.add_done_callback(lambda future: future.cancelled() or future.exception())

    async def interrupt(self, kernel_id: str) -> None:
        """Interrupts the code that a kernel runs."""
        await self._request("POST", f"{_path_of(kernel_id)}/interrupt", {})

    async def _request(
        self,
        method: str,
        path: str,
        body: dict[str, Any] | None = None,
        timeout: float = REQUEST_TIMEOUT_S,
    ) -> Any:
        return await arun(self._request_sync, method, path, body, timeout)

    def _request_sync(
        self, method: str, path: str, body: dict[str, Any] | None, timeout: float
    ) -> Any:
        headers = dict(self.headers)
        text = None
        if body is not None:
            text = json.dumps(body)
            headers["Content-Type"] = "application/json"
        connection = http.client.HTTPConnection(self.host, self.port, timeout=timeout)
        try:
            connection.request(method, path, text, headers)
            response = connection.getresponse()
            answer = response.read(MAX_ANSWER)
        except http.client.HTTPException as error:
            raise RestError(f"the server's reply is invalid: {error!r}", 0) from error
        finally:
            connection.close()
        if response.status >= 400:
            raise RestError(
                f"{response.status} {response.reason}: {_read_reason(answer)}", response.status
            )
        try:
            return json.loads(answer) if answer else None
        except (ValueError, RecursionError) as error:
            raise RestError(f"the server's reply is invalid: {error}", response.status) from error


def _path_of(kernel_id: str) -> str:
    return f"/api/kernels/{quote(kernel_id, safe='')}"


def _id_of(model: object) -> str:
    kernel_id = model.get("id") if isinstance(model, dict) else None
    if not isinstance(kernel_id, str):
        raise RestError("the server started a kernel without an id", 200)
    return kernel_id


def _read_reason(answer: bytes) -> str:
    try:
        return str(json.loads(answer)["message"])
    except (ValueError, KeyError, TypeError):
        return answer[:500].decode("utf-8", "replace")
