"""The request at hand, and the way to ask others in order to answer it."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Awaitable, Coroutine
from typing import Any, TypeVar, overload

from dragoman.client.client import Client
from dragoman.client.headers import EXPIRES_AT
from dragoman.core.ending import end
from dragoman.core.errors import GatewayError, ReplyTimeout, RequestFailed
from dragoman.core.message import Message, header
from dragoman.gateway.envelope.derivation import Data, failed, nested
from dragoman.gateway.envelope.mapping import from_data
from dragoman.gateway.envelope.method import Method
from dragoman.gateway.envelope.model import Envelope
from dragoman.gateway.headers import HOPS, MESSAGE_ID, hops_left
from dragoman.gateway.security.passes import Passes

R = TypeVar("R")

DEFAULT_TIMEOUT = 30.0


class Call:
    """Given to a method of an orchestrator that asks for it.

    ``hops`` is how often the request may still be forwarded, ``owner`` who it is done for, where passes are
    checked.
    """

    def __init__(
        self,
        request: Envelope,
        message: Message,
        client: Client,
        resource: str,
        passes: Passes | None = None,
        owner: str = "",
    ) -> None:
        self.request = request
        self.client = client
        self.resource = resource
        self.owner = owner
        self.hops = hops_left(message.headers)
        expires = header(message.headers, EXPIRES_AT)
        self.expires = int(expires) if expires is not None and expires.isdigit() else None
        self._id = header(message.headers, MESSAGE_ID) or request.client.request_id.encode()
        self._passes = passes
        self._numbers = itertools.count(1)

    @overload
    async def ask(
        self,
        resource: str,
        method: Method | str,
        entity: str | None = None,
        data: Data = None,
        *,
        reply: type[R],
        timeout: float = DEFAULT_TIMEOUT,
        version: str = "v1",
    ) -> R: ...

    @overload
    async def ask(
        self,
        resource: str,
        method: Method | str,
        entity: str | None = None,
        data: Data = None,
        *,
        timeout: float = DEFAULT_TIMEOUT,
        version: str = "v1",
    ) -> Envelope: ...

    async def ask(
        self,
        resource: str,
        method: Method | str,
        entity: str | None = None,
        data: Data = None,
        *,
        reply: type[Any] | None = None,
        timeout: float = DEFAULT_TIMEOUT,
        version: str = "v1",
    ) -> Any:
        """Ask another orchestrator, as a request that follows from this one, and wait for the response.

        As the record ``reply``, or as an envelope. Raises ``RequestFailed`` if it says that it cannot, if it
        does not answer in time, or if the request has been forwarded too often.
        """
        if self.hops < 1:
            raise RequestFailed(
                "The request has been forwarded too often.",
                code="gateway.hops",
                next="Do two orchestrators ask each other?",
                resource=resource,
            )
        number = next(self._numbers)
        asked = nested(
            self.request,
            resource,
            method,
            entity,
            data,
            source=self.resource,
            number=number,
            authorization=self._pass_for(resource),
            version=version,
        )
        answer = await self._send(asked, number, min(timeout, self._left()))
        problem = failed(answer)
        if problem is not None:
            raise RequestFailed(problem.message, status=problem.status, resource=resource)
        return answer if reply is None else from_data(answer.data, reply)

    def _pass_for(self, resource: str) -> str:
        return "" if self._passes is None else self._passes.issue(resource, self.resource, self.owner)

    async def _send(self, asked: Envelope, number: int, timeout: float) -> Envelope:
        headers = [
            (HOPS, str(self.hops - 1).encode()),
            (MESSAGE_ID, self._id + f"-{number}".encode()),
            (EXPIRES_AT, str(int((time.time() + timeout) * 1000)).encode()),
        ]
        try:
            return await self.client.request(
                asked.destination.resource,
                asked,
                reply=Envelope,
                timeout=timeout,
                # Not the client's own: what follows from one request may be handled at once.
                key=asked.client.request_id,
                headers=tuple(headers),
            )
        except ReplyTimeout as error:
            raise RequestFailed(
                "There was no answer in time.",
                code="gateway.timeout",
                status="Timeout",
                resource=asked.destination.resource,
            ) from error

    def _left(self) -> float:
        """Seconds until the request as a whole is given up."""
        return float("inf") if self.expires is None else max(0.001, self.expires / 1000 - time.time())

    async def join(self, *asks: Awaitable[R], timeout: float | None = None) -> list[R]:
        """All answers, in order. When one fails the others are not waited for."""
        tasks = [asyncio.ensure_future(each) for each in asks]
        try:
            async with asyncio.timeout(timeout):
                return await asyncio.gather(*tasks)
        except TimeoutError as error:
            raise RequestFailed(
                "Not all answers came in time.", code="gateway.timeout", status="Timeout"
            ) from error
        finally:
            await end(*tasks)

    async def gather(
        self, *asks: Coroutine[Any, Any, R], timeout: float | None = None
    ) -> list[R | GatewayError]:
        """All answers, in order; in the place of one that failed or did not come in time, the error."""
        tasks = [asyncio.create_task(each) for each in asks]
        try:
            if tasks:
                await asyncio.wait(tasks, timeout=timeout)
            return [_result(task) for task in tasks]
        finally:
            await end(*tasks)


def _result(task: asyncio.Task[R]) -> R | GatewayError:
    if not task.done():
        return RequestFailed("There was no answer in time.", code="gateway.timeout", status="Timeout")
    error = task.exception()
    if error is None:
        return task.result()
    if isinstance(error, GatewayError):
        return error
    raise error
