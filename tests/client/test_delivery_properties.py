"""Whatever handlers do, and however often members come and go: nothing is lost, and order holds."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from tempfile import TemporaryDirectory
from typing import Annotated, Any

from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman import Channel, Client, ClientOptions, EndpointOptions, Message, Payload, RetryOptions, endpoint
from dragoman.adapters.embedded import EmbeddedBroker
from dragoman.adapters.memory import MemoryBroker
from dragoman.client.history import history
from dragoman.core.broker import Broker
from tests.client.waiting import until

Plan = list[str]
"""What a handler does with a message, call by call; after the last step it succeeds."""

plans = st.lists(st.sampled_from(["fail", "wait", "wait long"]), max_size=4)
runs = st.fixed_dictionaries(
    {
        "plans": st.lists(st.tuples(plans, st.integers(0, 3)), min_size=1, max_size=25),
        "concurrency": st.sampled_from([1, 1, 3]),
        "window": st.sampled_from([1, 3, 64]),
        "attempts": st.integers(1, 3),
        "letters": st.booleans(),
        "restarts": st.integers(0, 2),
        "members": st.integers(1, 2),
    }
)


class World:
    """The endpoint under test, and what it has seen."""

    def __init__(self, run: dict[str, Any]) -> None:
        self.run = run
        self.steps = {number: list(plan) for number, (plan, _) in enumerate(run["plans"])}
        self.handled: list[int] = []
        self.active: dict[tuple[int | None, bytes | None], int] = defaultdict(int)
        self.overlaps = 0

    def endpoint(self) -> Any:
        run = self.run
        options = EndpointOptions(
            retry=RetryOptions(attempts=run["attempts"], delay=0.0),
            dead_letter="{channel}.dead" if run["letters"] else None,
            concurrency=run["concurrency"],
        )

        @endpoint("work", group="workers", options=options)
        async def work(payload: Annotated[bytes, Payload], message: Message) -> None:
            await self.handle(int(payload), message)

        return work

    async def handle(self, number: int, message: Message) -> None:
        place = (message.partition, message.key if self.run["concurrency"] > 1 else None)
        self.active[place] += 1
        self.overlaps += self.active[place] > 1
        try:
            step = self.steps[number].pop(0) if self.steps[number] else "succeed"
            if step == "fail":
                raise ValueError
            for _ in range({"wait": 1, "wait long": 20}.get(step, 0)):
                await asyncio.sleep(0)
            self.handled.append(number)
        finally:
            self.active[place] -= 1


async def deliver(run: dict[str, Any], broker: Broker) -> tuple[World, set[int], int]:
    """Run it all; the world, the numbers that became dead letters, and how far the group is behind."""
    await broker.connect()
    world = World(run)
    try:
        for channel in ("work", "work.dead"):
            await broker.create(Channel(channel, partitions=2))
        options = ClientOptions(window=run["window"])

        async def settled() -> bool:
            lags = await broker.lag("work")
            return bool(lags) and not any(lag.behind for lag in lags)

        for restart in range(run["restarts"] + 1):
            last = restart == run["restarts"]
            members = [
                Client(broker, "memory://", [world.endpoint()], options=options)
                for _ in range(run["members"])
            ]
            for member in members:
                await member.__aenter__()
            if restart == 0:
                for number, (_, key) in enumerate(run["plans"]):
                    await broker.publish([Message("work", b"%d" % number, b"%d" % key)])
            if last:
                await until(settled)
            for member in members:
                await member.__aexit__(None, None, None)
        behind = sum(lag.behind for lag in await broker.lag("work"))
        dead = {int(message.payload or b"") async for message in history(broker, "work.dead")}
    finally:
        await broker.close()
    return world, dead, behind


def check(run: dict[str, Any], broker: Broker) -> None:
    world, dead, behind = asyncio.run(deliver(run, broker))
    numbers = set(range(len(run["plans"])))
    assert behind == 0
    assert set(world.handled) | dead == numbers
    if not run["letters"]:
        assert dead == set()
    for number in dead:
        assert "fail" in run["plans"][number][0]
    if run["members"] == 1:
        assert world.overlaps == 0
    if run["members"] == 1 and run["restarts"] == 0 and run["letters"]:
        for key in range(4):
            of_key = [n for n in world.handled if run["plans"][n][1] == key]
            assert of_key == sorted(of_key)


@settings(max_examples=40, deadline=None)
@given(runs)
def test_every_message_is_handled_or_a_letter_and_order_holds(run: dict[str, Any]) -> None:
    check(run, MemoryBroker(f"memory://{id(run)}"))


@settings(max_examples=8, deadline=None)
@given(runs)
def test_the_same_holds_on_the_embedded_broker(run: dict[str, Any]) -> None:
    with TemporaryDirectory() as folder:
        check(run, EmbeddedBroker(f"embedded://{folder}"))
