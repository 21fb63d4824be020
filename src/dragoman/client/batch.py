"""Many messages that an endpoint handles as one, and that are done with together."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

from dragoman.client.burial import code_of
from dragoman.client.delivery import Delivery
from dragoman.client.outcome import Handler, Outcome, kept
from dragoman.core.message import Message

log = logging.getLogger("dragoman.client")


class Batch(Delivery):
    """Some deliveries to one endpoint. ``value`` is the list of their values; ``message`` is the first."""

    __slots__ = ("members",)

    def __init__(self, members: Sequence[Delivery]) -> None:
        super().__init__(members[0].message, members[0].route)
        self.members = members
        self.value = [each.value for each in members]

    @property
    def size(self) -> int:
        return len(self.members)

    def decode(self) -> None:
        for each in self.members:
            each.decode()
        self.value = [each.value for each in self.members]

    def place(self) -> dict[str, Any]:
        return super().place() | {"messages": len(self.members)}


@dataclass(frozen=True, slots=True)
class Joined(Outcome):
    """Readable, and waiting for the others of its batch."""

    delivery: Delivery | None = None
    runner: Runner | None = None


@dataclass(frozen=True, slots=True)
class Runner:
    """What an endpoint does with a batch. If it fails as a whole, each message is tried by itself.

    So one bad message does not take its neighbours with it to the dead letters.
    """

    together: Handler
    alone: Handler

    async def join(self, delivery: Delivery) -> Outcome:
        return Joined(acknowledge=False, delivery=delivery, runner=self)

    async def __call__(self, deliveries: Sequence[Delivery]) -> list[Outcome]:
        if len(deliveries) > 1:
            batch = Batch(deliveries)
            try:
                outcome = await self.together(batch)
                return [outcome] * len(deliveries)
            except Exception as error:
                log.warning(
                    "A batch failed, its messages are handled one by one.",
                    extra=batch.place() | {"error_code": code_of(error)},
                )
                for each in deliveries:
                    each.decode()
        return [await self._alone(each) for each in deliveries]

    async def _alone(self, delivery: Delivery) -> Outcome:
        try:
            return await self.alone(delivery)
        except Exception as error:
            return kept(delivery.message, error)


def batches(handle: Callable[[Message], Awaitable[Outcome]]) -> Callable[[Sequence[Message]], Any]:
    """Have each message read and sorted out by itself, then the rest handled together."""

    async def one(message: Message) -> Outcome:
        try:
            return await handle(message)
        except Exception as error:
            return kept(message, error)

    async def handle_batch(messages: Sequence[Message]) -> list[Outcome]:
        outcomes = [await one(message) for message in messages]
        runners: dict[int, tuple[Runner, list[int], list[Delivery]]] = {}
        for index, outcome in enumerate(outcomes):
            if isinstance(outcome, Joined) and outcome.runner is not None and outcome.delivery is not None:
                group = runners.setdefault(id(outcome.runner), (outcome.runner, [], []))
                group[1].append(index)
                group[2].append(outcome.delivery)
        for runner, indexes, deliveries in runners.values():
            for index, outcome in zip(indexes, await runner(deliveries), strict=True):
                outcomes[index] = outcome
        return outcomes

    return handle_batch
