"""The service activator: a function that knows nothing of messages becomes an endpoint."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

from dragoman.client.endpoint import endpoint


def activate(channel: str, service: Callable[..., Any], **how: Any) -> Callable[..., Any]:
    """An endpoint that calls the service, which stays as it is and may be called by others, too.

        async with Client(controllers=[activate("loan.requests", loans.quote, group="loans")]): ...

    ``how`` is what ``@endpoint`` takes. The service's annotations say what it is given and what it replies.
    """

    if inspect.isasyncgenfunction(service):

        async def stream(*arguments: Any, **named: Any) -> Any:
            async for each in service(*arguments, **named):
                yield each

        made: Callable[..., Any] = stream
    elif inspect.iscoroutinefunction(service):

        async def call(*arguments: Any, **named: Any) -> Any:
            return await service(*arguments, **named)

        made = call
    else:

        def call_plainly(*arguments: Any, **named: Any) -> Any:
            return service(*arguments, **named)

        made = call_plainly
    functools.update_wrapper(made, service)
    return endpoint(channel, **how)(made)
