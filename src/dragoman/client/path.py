"""The path of a message to its endpoint, compiled from stages.

A plan has all that surrounds an endpoint. For each schema it becomes a path: one function, whose source has
a line for each stage that can apply and none for the others. So there is one order of stages, whatever the
shape of the endpoint:

1. stages before reading: parts of sequences, the part of the condition that needs no payload, expiry;
2. reading; what cannot be read is rejected;
3. stages after reading: the rest of the condition, the model's selection, the limit of deliveries;
4. the call: the endpoint's function with the value alone, or users' middleware with a delivery;
5. what becomes of a failure, which is not looked at before there is one.

The shapes differ in what they make: a delivery is made for every message only if someone inside wants it.
Batches are the same path with ``Runner.join`` as its call.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from itertools import count
from typing import Any, TypeAlias

from dragoman.client.cancellation import failure_of, unreadable
from dragoman.client.delivery import Delivery, Route
from dragoman.client.keyreading import KeyReader
from dragoman.client.metrics import ChannelMetrics
from dragoman.client.outcome import DONE, Handler, Middleware, Outcome
from dragoman.client.reply import check_undeclared
from dragoman.client.stages import Stage, is_part, sequence
from dragoman.core.errors import MessageError
from dragoman.core.message import Message
from dragoman.schema.compiling import Compilation

Take: TypeAlias = Callable[[Message], Awaitable[Outcome]]

_numbers = count(1)


@dataclass(frozen=True, slots=True)
class Plan:
    """All that surrounds one endpoint, whatever the schema of a message."""

    stages: tuple[Stage, ...]
    call: Handler
    """The endpoint and the user's own middleware."""
    function: Callable[[Any], Awaitable[Any]] | None
    """The same, if that is a coroutine function of the value alone."""
    reject: Callable[[Delivery, MessageError], Awaitable[Outcome]]
    """What becomes of a message that cannot be read."""
    failed: Callable[[Delivery, Exception], Awaitable[Outcome]]
    """What becomes of a message whose handler raised this."""
    counters: ChannelMetrics
    observe: Middleware | None = None
    """Surrounds all of it, and wants a delivery."""

    def path(self, route: Route, part: Take) -> Path:
        """The path of messages of one schema. Parts of sequences go to ``part`` at once."""
        if self.observe is None:
            take = _compiled(replace(self, stages=(sequence(part), *self.stages)), route)
        else:
            take = _observed(self.observe, _compiled(self, route), route, part)
        is_plain = self.observe is None and all(stage.header for stage in self.stages)
        function = self.function if is_plain else None
        learn_key = route.read_key.learn if isinstance(route.read_key, KeyReader) else None
        return Path(take, route, function, self.failed, learn_key)


@dataclass(frozen=True, slots=True)
class Path:
    """How messages of one schema reach one endpoint."""

    take: Take
    route: Route
    function: Callable[[Any], Awaitable[Any]] | None
    """The endpoint's function, if a message without headers needs nothing but to be read and given to it."""
    fail: Callable[[Delivery, Exception], Awaitable[Outcome]]
    learn_key: Callable[[bytes | None], Awaitable[None]] | None = None
    """To be called first where keys are records: it may have to ask the registry for a key's schema."""

    async def failed(self, message: Message, error: Exception) -> Outcome:
        """What becomes of a message for whose value the function has raised this."""
        delivery = Delivery(message, self.route)
        delivery.decode()
        return await self.fail(delivery, error)


def _observed(observe: Middleware, handle: Handler, route: Route, part: Take) -> Take:
    def take(message: Message) -> Awaitable[Outcome]:
        return part(message) if is_part(message) else observe(Delivery(message, route), handle)

    return take


def _delivery(message: Message, route: Route, value: Any) -> Delivery:
    delivery = Delivery(message, route)
    delivery.value = value
    return delivery


def _compiled(plan: Plan, route: Route) -> Callable[[Any], Awaitable[Outcome]]:
    """Takes messages; deliveries if the plan is observed."""
    code = Compilation(f"<path {next(_numbers)} to {route.endpoint}>")
    code.scope |= {
        "DONE": DONE,
        "Delivery": Delivery,
        "call": plan.call,
        "check_undeclared": check_undeclared,
        "counters": plan.counters,
        "decode": route.decode,
        "delivery_with": _delivery,
        "failed": plan.failed,
        "failure_of": failure_of,
        "function": plan.function,
        "reject": plan.reject,
        "route": route,
        "unreadable": unreadable,
    }
    before = [stage for stage in plan.stages if not stage.after_reading]
    after = [stage for stage in plan.stages if stage.after_reading]
    by_value = plan.function is not None and plan.observe is None
    if plan.observe is None:
        code.add("async def take(message):")
        made = "Delivery(message, route)"
    else:
        code.add("async def take(delivery):\n    message = delivery.message")
        made = "delivery"
    code.add(_headers(before))
    code.add(_checks(code, before, made))
    if by_value:
        code.add(_READ_VALUE)
        code.add(_checks(code, after, "delivery_with(message, route, value)", "value"))
        code.add(_CALL_FUNCTION)
    else:
        code.add("" if plan.observe is not None else "    delivery = Delivery(message, route)")
        code.add(_READ_DELIVERY)
        code.add(_checks(code, after, "delivery", "delivery.value"))
        code.add(_CALL)
    return code.compile("take")


def _headers(stages: list[Stage]) -> str:
    """One look at the headers for all stages that are about one. The first of several alike counts."""
    watched = [stage.header for stage in stages if stage.header is not None]
    if not watched:
        return ""
    lines = [
        f"    {' = '.join(map(_text_of, watched))} = None",
        "    for name, text in reversed(message.headers):",
    ]
    for header in watched:
        lines.append(f"        if name == {header!r}:")
        lines.append(f"            {_text_of(header)} = text")
    return "\n".join(lines)


def _text_of(header: str) -> str:
    return "text_of_" + header.replace("-", "_")


def _checks(code: Compilation, stages: list[Stage], delivery: str, value: str = "None") -> str:
    lines = []
    for stage in stages:
        passes, end = code.bind(stage.passes, "passes"), code.bind(stage.end, "end")
        condition = f"not {passes}(message, {value})"
        if stage.header is not None:
            text = _text_of(stage.header)
            condition = f"{text} is not None and not {passes}(message, {text})"
        lines.append(f"    if {condition}:\n        return await {end}({delivery})")
    return "\n".join(lines)


_READ_VALUE = """
    try:
        value = decode(message.payload)
    except BaseException as error:
        return await reject(Delivery(message, route), unreadable(error))
"""
_CALL_FUNCTION = """
    try:
        result = await function(value)
        if result is not None:
            check_undeclared(message, result)
    except BaseException as error:
        failure = await failure_of(error)
    else:
        counters.handled += 1
        return DONE
    return await failed(delivery_with(message, route, value), failure)
"""
_READ_DELIVERY = """
    try:
        delivery.decode()
    except BaseException as error:
        return await reject(delivery, unreadable(error))
"""
_CALL = """
    try:
        outcome = await call(delivery)
    except BaseException as error:
        failure = await failure_of(error)
    else:
        counters.handled += outcome.acknowledge
        return outcome
    return await failed(delivery, failure)
"""
