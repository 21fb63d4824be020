"""A broker whose receivers write to the history what they receive and acknowledge."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from dragoman.core.broker import Broker, Receiver, Subscription
from dragoman.core.message import Message, Position
from dragoman.schema.framing import HEADER_SIZE
from tests.soak.history import Identity, Writer

ASIDE = (".dead", ".invalid")


def record_calls(broker: Broker, channel: str, history: Writer) -> None:
    """Have this broker's calls for ``channel`` recorded.

    Its methods are replaced in place: the client asks the class of a receiver what it can do.
    """
    subscribe, publish = broker.subscribe, broker.publish
    calls, receivers = itertools.count(), itertools.count()

    async def recorded_subscribe(subscription: Subscription) -> Receiver:
        receiver = await subscribe(subscription)
        _record_receiver(receiver, next(receivers), calls, history)
        return receiver

    async def recorded_publish(messages: Sequence[Message], delay: float = 0.0) -> Sequence[Position | None]:
        positions = await publish(messages, delay)
        for message in messages:
            if message.channel != channel and message.channel.endswith(ASIDE):
                history.write("aside", *identity_of(message))
        return positions

    _replace(broker, subscribe=recorded_subscribe, publish=recorded_publish)


def _record_receiver(receiver: Receiver, number: int, calls: itertools.count[int], history: Writer) -> None:
    receive, acknowledge = receiver.receive, receiver.acknowledge

    async def recorded_receive(limit: int, timeout: float) -> Sequence[Message]:
        messages = await receive(limit, timeout)
        if messages:
            deliveries = [(each.partition, each.offset, *identity_of(each)) for each in messages]
            history.write("received", number, deliveries)
        return messages

    async def recorded_acknowledge(messages: Sequence[Message]) -> None:
        call = next(calls)
        places = [(each.partition, each.offset) for each in messages]
        history.write("acknowledging", call, number, places)
        try:
            await acknowledge(messages)
        except Exception as error:
            history.write("refused", call, getattr(error, "code", type(error).__qualname__))
            raise
        history.write("acknowledged", call)

    _replace(receiver, receive=recorded_receive, acknowledge=recorded_acknowledge)


def _replace(target: object, **methods: Any) -> None:
    for name, method in methods.items():
        setattr(target, name, method)


def identity_of(message: Message) -> Identity:
    """The producer and number of a tick: the two numbers that Avro writes behind the frame's header."""
    producer, at = _number(message.payload or b"", HEADER_SIZE)
    number, _ = _number(message.payload or b"", at)
    return producer, number


def _number(data: bytes, at: int) -> tuple[int, int]:
    """One of Avro's numbers, which is not negative, and where it ends."""
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value >> 1, at
