"""Publishing and handling typed messages: parameters, keys, producers, controllers, clients."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import msgspec
import pytest

from dragoman import (
    Client,
    ClientOptions,
    EndpointOptions,
    Headers,
    Key,
    Message,
    Metadata,
    Payload,
    Producer,
    To,
    controller,
    endpoint,
)
from dragoman.adapters.memory import MemoryBroker
from dragoman.client.flight import Flight
from dragoman.client.history import history
from dragoman.core.errors import (
    ChannelNotFound,
    ClientError,
    DragomanError,
    EncodeError,
    StartupError,
    Unsupported,
)
from dragoman.core.registry import Registry
from dragoman.schema.framing import unframe
from dragoman.schema.tagging import tags
from tests.client.loans import LoanKey, LoanReply, LoanRequest
from tests.client.waiting import until

REQUEST = LoanRequest(1, 10_000.0, 24, "urgent")


@dataclass
class PlainQuote:
    bank: str


class StructQuote(msgspec.Struct):
    bank: str


async def test_a_record_arrives_as_it_was_sent(memory: MemoryBroker, registry: Registry) -> None:
    got: list[LoanRequest] = []

    @controller(group="loans")
    class Loans:
        @endpoint("loan.requests")
        async def on_request(self, request: LoanRequest) -> None:
            got.append(request)

    async with Client(memory, registry, [Loans]) as client:
        position = await client.publish("loan.requests", REQUEST)
        await until(lambda: got)
    assert got == [REQUEST]
    assert position is not None and position.channel == "loan.requests"


async def test_parameters_are_given_what_their_annotations_ask_for(
    memory: MemoryBroker, registry: Registry
) -> None:
    got: list[tuple[Any, ...]] = []

    @endpoint("loan.requests", group="loans")
    async def on_request(
        about: Metadata,
        request: Annotated[LoanRequest, Payload],
        key: Annotated[str, Key],
        headers: Annotated[dict[str, bytes], Headers],
        pairs: Annotated[tuple, Headers],
        message: Message,
    ) -> None:
        got.append((about, request, key, headers, pairs, message))

    async with Client(memory, registry, [on_request]) as client:
        await client.publish("loan.requests", REQUEST, key="k", headers={"a": "1", "b": b"2"}, partition=2)
        await until(lambda: got)
    about, request, key, headers, pairs, message = got[0]
    assert request == REQUEST
    assert key == "k"
    assert headers == {"a": b"1", "b": b"2"}
    assert pairs == (("a", b"1"), ("b", b"2"))
    assert (about.channel, about.partition, about.offset, about.attempt) == ("loan.requests", 2, 0, 1)
    assert (about.contract, about.version, about.group) == ("loan.requests-value", 1, "loans")
    assert unframe(message.payload)[0] == about.schema_id


@pytest.mark.parametrize(("annotation", "key"), [(str, "clé"), (bytes, b"\xff\x00"), (int, -42)])
async def test_plain_keys_keep_their_type(
    memory: MemoryBroker, registry: Registry, annotation: Any, key: Any
) -> None:
    got: list[Any] = []

    @endpoint("loan.requests")
    async def on_request(request: LoanRequest, key: Annotated[annotation, Key]) -> None:  # type: ignore[valid-type]
        got.append(key)

    async with Client(memory, registry, [on_request]) as client:
        await client.publish("loan.requests", REQUEST, key=key)
        await until(lambda: got)
    assert got == [key]


async def test_a_record_as_key_has_a_contract_of_its_own(memory: MemoryBroker, registry: Registry) -> None:
    got: list[Any] = []

    @endpoint("loan.requests")
    async def on_request(request: LoanRequest, key: Annotated[LoanKey | None, Key]) -> None:
        got.append(key)

    async with Client(memory, registry, [on_request]) as client:
        await client.publish("loan.requests", REQUEST, key=LoanKey("ada", 7), partition=0)
        await client.publish("loan.requests", REQUEST, partition=0)
        await client.publish_many("loan.requests", [REQUEST], key=lambda one: LoanKey("bob", 8), partition=0)
        await until(lambda: len(got) == 3)
    assert got == [LoanKey("ada", 7), None, LoanKey("bob", 8)]
    assert set(await registry.contracts()) == {"loan.requests-key", "loan.requests-value"}


async def test_an_endpoint_of_bytes_may_have_a_record_as_key(
    memory: MemoryBroker, registry: Registry
) -> None:
    got: list[Any] = []

    @endpoint("loan.requests")
    async def on_frame(frame: Annotated[bytes, Payload], key: Annotated[LoanKey, Key]) -> None:
        got.append((frame[:1], key))

    key = LoanKey("c", 7)
    async with Client(memory, registry, [on_frame]) as client:
        await client.publish("loan.requests", REQUEST, key=key)
        await until(lambda: got)
    assert got == [(b"\0", key)]


async def test_a_tombstone_reaches_an_endpoint_that_takes_none(
    memory: MemoryBroker, registry: Registry
) -> None:
    got: list[Any] = []

    @endpoint("loan.requests")
    async def on_request(request: LoanRequest | None, key: Annotated[str, Key]) -> None:
        got.append((request, key))

    async with Client(memory, registry, [on_request]) as client:
        producer = await client.producer("loan.requests", LoanRequest)
        await producer.publish(None, key="gone")
        await until(lambda: got)
    assert got == [(None, "gone")]


@pytest.mark.parametrize("quote", [PlainQuote("b"), StructQuote("b")])
async def test_dataclasses_and_structs_are_taken_as_they_are(
    memory: MemoryBroker, registry: Registry, quote: Any
) -> None:
    got: list[Any] = []
    cls = type(quote)

    @endpoint("quotes")
    async def on_quote(quote: cls) -> None:  # type: ignore[valid-type]
        got.append(quote)

    async with Client(memory, registry, [on_quote]) as client:
        await client.publish("quotes", quote)
        await until(lambda: got)
    assert got == [quote]


async def test_a_plain_endpoint_takes_every_version_as_a_dict(
    memory: MemoryBroker, registry: Registry
) -> None:
    got: list[Any] = []

    @endpoint("loan.requests")
    async def on_request(request: dict[str, Any], about: Metadata) -> None:
        got.append((request["amount"], about.contract, about.version))

    async with Client(memory, registry, [on_request]) as client:
        await client.publish("loan.requests", REQUEST)
        await until(lambda: got)
    assert got == [(10_000.0, "loan.requests-value", 1)]


async def test_parameters_may_be_keywords_only(memory: MemoryBroker, registry: Registry) -> None:
    got: list[Any] = []

    @endpoint("loan.requests", group="one")
    async def alone(*, request: LoanRequest) -> None:
        got.append(request)

    @endpoint("loan.requests", group="two")
    def threaded(request: LoanRequest, *, key: Annotated[str, Key]) -> None:
        got.append(key)

    async with Client(memory, registry, [alone, threaded]) as client:
        await client.publish("loan.requests", REQUEST, key="k")
        await until(lambda: len(got) == 2)
    assert REQUEST in got and "k" in got


@pytest.mark.parametrize("wrong", [{"a": 1}, {1: "a"}, (("a", None),)])
async def test_a_header_that_is_not_text_is_refused(
    memory: MemoryBroker, registry: Registry, wrong: Any
) -> None:
    async with Client(memory, registry) as client:
        with pytest.raises(EncodeError) as caught:
            await client.publish("loan.requests", REQUEST, headers=wrong)
    assert caught.value.code == "message.header"


async def test_producers_are_injected_into_controllers_and_functions(
    memory: MemoryBroker, registry: Registry
) -> None:
    got: list[LoanReply] = []

    @controller(group="loans")
    class Loans:
        replies: Annotated[Producer[LoanReply], To("loan.replies")]
        client: Client

        @endpoint("loan.requests")
        async def on_request(self, request: LoanRequest) -> None:
            await self.replies.publish(LoanReply(request.request_id, 1.0))
            await self.client.publish("loan.replies", LoanReply(request.request_id, 2.0))

    @endpoint("loan.replies", group="readers")
    async def on_reply(reply: LoanReply, more: Annotated[Producer[LoanReply], To("loan.more")]) -> None:
        await more.publish(reply)
        got.append(reply)

    async with Client(memory, registry, [Loans, on_reply]) as client:
        await client.publish("loan.requests", REQUEST)
        await until(lambda: len(got) == 2)
        assert {reply.interest_rate for reply in got} == {1.0, 2.0}
        assert len([message async for message in history(memory, "loan.more")]) == 2


async def test_a_plain_function_publishes_from_its_thread(memory: MemoryBroker, registry: Registry) -> None:
    got: list[int] = []

    @endpoint("loan.requests")
    def forward(request: LoanRequest, out: Annotated[Producer[LoanReply], To("loan.replies")]) -> None:
        out.publish_blocking(LoanReply(request.request_id, 1.0), key="k")
        out.publish_many_blocking([LoanReply(request.request_id + 1, 1.0)])

    @endpoint("loan.replies")
    async def on_reply(reply: LoanReply) -> None:
        got.append(reply.request_id)

    async with Client(memory, registry, [forward, on_reply]) as client:
        await client.publish("loan.requests", LoanRequest(1, 1.0, 1))
        await until(lambda: len(got) == 2)
        producer = await client.producer("loan.replies", LoanReply)
        with pytest.raises(ClientError, match="block the event loop"):
            producer.publish_blocking(LoanReply(3, 1.0))
    assert sorted(got) == [1, 2]


async def test_a_controller_class_serves_many_clients(memory: MemoryBroker, registry: Registry) -> None:
    instances: set[int] = set()
    got: list[int] = []

    @controller(group="loans")
    class Loans:
        @endpoint("loan.requests")
        async def on_request(self, request: LoanRequest) -> None:
            instances.add(id(self))
            got.append(request.request_id)

    async with (
        Client(memory, registry, [Loans]) as one,
        Client(memory, registry, [Loans]) as two,
    ):
        await until(lambda: _shared(one, two))
        for number in range(200):
            await one.publish("loan.requests", LoanRequest(number, 1.0, 1), key=number)
        await until(lambda: len(set(got)) == 200)
        await until(
            lambda: one.metrics.of("loan.requests").handled and two.metrics.of("loan.requests").handled
        )
    assert len(instances) == 2


async def _shared(one: Client, two: Client) -> bool:
    """Whether both members have had a turn, so that the partitions are divided between them."""
    for number in range(8):
        await one.publish("loan.requests", LoanRequest(0, 1.0, 1), key=number)
    return bool(one.metrics.of("loan.requests").handled and two.metrics.of("loan.requests").handled)


async def test_every_group_gets_every_message(memory: MemoryBroker, registry: Registry) -> None:
    got: dict[str, list[int]] = {"a": [], "b": []}

    @endpoint("loan.requests", group="a")
    async def first(request: LoanRequest) -> None:
        got["a"].append(request.request_id)

    @endpoint("loan.requests", group="b")
    async def second(request: LoanRequest) -> None:
        got["b"].append(request.request_id)

    async with Client(memory, registry, [first, second]) as client:
        await client.publish_many("loan.requests", [LoanRequest(n, 1.0, 1) for n in range(50)])
        await until(lambda: len(got["a"]) == len(got["b"]) == 50)
    assert sorted(got["a"]) == sorted(got["b"]) == list(range(50))


async def test_an_instance_of_a_controller_brings_its_own_things(
    memory: MemoryBroker, registry: Registry
) -> None:
    @controller
    class Loans:
        def __init__(self, store: list[LoanRequest]) -> None:
            self.store = store

        @endpoint("loan.requests")
        async def on_request(self, request: LoanRequest) -> None:
            self.store.append(request)

    store: list[LoanRequest] = []
    async with Client(memory, registry, [Loans(store)]) as client:
        await client.publish("loan.requests", REQUEST)
        await until(lambda: store)
    assert store == [REQUEST]


async def test_a_published_class_is_tagged_with_its_version(memory: MemoryBroker) -> None:
    async with Client(memory, "memory://") as client:
        await client.publish("loan.tagged", LoanReply(1, 2.0))
        found = [tag for tag in tags(LoanReply) if tag.channel == "loan.tagged"]
        assert [(tag.contract, tag.version) for tag in found] == [("loan.tagged-value", 1)]
        assert found[0].schema_id == (await client.producer("loan.tagged", LoanReply)).schema_id


async def test_a_value_of_another_class_is_refused(memory: MemoryBroker, registry: Registry) -> None:
    async with Client(memory, registry) as client:
        producer = await client.producer("loan.requests", LoanRequest)
        with pytest.raises(EncodeError, match="takes LoanRequest"):
            await producer.publish(LoanReply(1, 1.0))  # type: ignore[arg-type]
        with pytest.raises(EncodeError, match="not a record"):
            await client.publish("loan.requests", {"request_id": 1})


async def test_without_auto_registration_an_unknown_channel_is_refused(
    memory: MemoryBroker, registry: Registry
) -> None:
    options = ClientOptions(auto_register_channels=False)
    async with Client(memory, registry, options=options) as client:
        with pytest.raises(ChannelNotFound):
            await client.publish("nowhere", REQUEST)


async def test_a_delayed_message_is_handled_in_the_end(memory: MemoryBroker, registry: Registry) -> None:
    got: list[int] = []

    @endpoint("loan.requests")
    async def on_request(request: LoanRequest) -> None:
        got.append(request.request_id)

    async with Client(memory, registry, [on_request]) as client:
        await client.publish("loan.requests", LoanRequest(1, 1.0, 1), delay=0.05)
        await client.publish("loan.requests", LoanRequest(2, 1.0, 1))
        await until(lambda: len(got) == 2)
    assert set(got) == {1, 2}


async def test_what_a_broker_cannot_do_is_refused_and_not_ignored(registry: Registry) -> None:
    broker = MemoryBroker("memory://limited")
    broker.capabilities = replace(MemoryBroker.capabilities, delayed_delivery=False, delivery_count=False)
    await broker.connect()
    async with Client(broker, registry) as client:
        with pytest.raises(Unsupported):
            await client.publish("loan.requests", REQUEST, delay=1.0)
        with pytest.raises(Unsupported):
            await client.publish_many("loan.requests", [REQUEST], delay=1.0)

    @endpoint("loan.requests", options=EndpointOptions(deliveries=5))
    async def on_request(request: LoanRequest) -> None: ...

    with pytest.raises(StartupError, match="does not count deliveries"):
        async with Client(broker, registry, [on_request]):
            pass
    await broker.close()


@pytest.mark.parametrize("key", [1.5, True, ["a"]])
async def test_a_key_of_another_type_is_refused(memory: MemoryBroker, registry: Registry, key: Any) -> None:
    async with Client(memory, registry) as client:
        with pytest.raises(EncodeError, match="is not a key"):
            await client.publish("loan.requests", REQUEST, key=key)
        with pytest.raises(EncodeError, match="is not a key"):
            await client.publish_many("loan.requests", [REQUEST], key=lambda request: key)
        assert await memory.channels() == ["loan.requests"]
        assert [message async for message in history(memory, "loan.requests")] == []


async def test_a_client_outside_its_context_says_so(memory: MemoryBroker, registry: Registry) -> None:
    client = Client(memory, registry)
    with pytest.raises(ClientError, match="not running"):
        await client.publish("loan.requests", REQUEST)
    async with client:
        with pytest.raises(ClientError, match="already"):
            await client.__aenter__()


async def test_a_client_can_be_entered_again(tmp_path: Path) -> None:
    client = Client(f"embedded://{tmp_path}/broker", f"sqlite://{tmp_path}/registry.db")
    for _ in range(2):
        async with client:
            await client.publish("loan.requests", REQUEST)
    assert client.metrics.of("loan.requests").published == 2


async def test_leaving_a_client_closes_all_that_it_has_opened(tmp_path: Path) -> None:
    handled: list[int] = []

    @endpoint("requests")
    async def on_order(order: LoanRequest) -> None:
        handled.append(order.request_id)

    url, registry = f"embedded://{tmp_path / 'broker'}", f"sqlite://{tmp_path / 'registry.db'}"
    client = Client(url, registry, [on_order], database=f"sqlite://{tmp_path / 'app.db'}")
    async with client:
        broker, opened, database = client.broker, client.registry, client.database
        await client.publish("requests", LoanRequest(1, 1.0, 1))
        await until(lambda: handled)
    assert client.in_flight == 0
    with pytest.raises(ClientError):
        _ = client.broker
    with pytest.raises(DragomanError):
        await broker.channels()
    with pytest.raises((DragomanError, RuntimeError)):
        await opened.contracts()
    with pytest.raises((DragomanError, RuntimeError)), database.transaction():
        pass
    async with Client(url, registry) as other:
        await other.publish("requests", LoanRequest(2, 1.0, 1))
        # It waits for a member: the one that was there is gone.
        async with other.poll("requests", LoanRequest, limit=1) as orders:
            assert [order.request_id async for order in orders] == [2]
    assert handled == [1]


RUNNING = """
import asyncio, signal, sys
from dragoman import Client, endpoint, record

@record
class Order:
    number: int

async def main():
    begun, ended = asyncio.Event(), False

    @endpoint("orders")
    async def on_order(order: Order) -> None:
        nonlocal ended
        begun.set()
        await asyncio.sleep(0.05)
        ended = True

    async def ask():
        await begun.wait()
        signal.raise_signal(getattr(signal, sys.argv[1]))

    async with Client("memory://", "memory://", [on_order]) as client:
        await client.publish("orders", Order(1))
        asking = asyncio.create_task(ask())
        await client.run()
    await asking
    print("handled" if ended else "not handled")
    before = signal.SIG_DFL if sys.argv[1] == "SIGTERM" else signal.default_int_handler
    print(signal.getsignal(getattr(signal, sys.argv[1])) is before)

loop = asyncio.new_event_loop()
loop.run_until_complete(main())
"""


@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT"])
def test_a_client_that_runs_ends_in_order_when_the_process_is_asked_to_end(name: str) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", RUNNING, name], capture_output=True, text=True, timeout=120, check=False
    )
    assert (ended.returncode, ended.stdout) == (0, "handled\nTrue\n"), ended.stderr


async def test_a_handler_may_publish_while_its_client_closes(
    memory: MemoryBroker, registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    started, closing = asyncio.Event(), asyncio.Event()

    @endpoint("loan.requests")
    async def on_request(request: LoanRequest, client: Client) -> None:
        started.set()
        await closing.wait()
        await client.publish("loan.replies", LoanReply(request.request_id, 1.0))

    async def drain(self: Flight, timeout: float, beat: float) -> None:
        closing.set()
        await real_drain(self, timeout, beat)

    real_drain = Flight.drain
    monkeypatch.setattr(Flight, "drain", drain)
    async with Client(memory, registry, [on_request]) as client:
        await client.publish("loan.requests", REQUEST)
        await started.wait()
    assert client.metrics.of("loan.requests").handled == 1
    assert len([message async for message in history(memory, "loan.replies")]) == 1


def test_importing_dragoman_loads_next_to_nothing() -> None:
    code = "import sys, dragoman; print([m for m in sys.modules if m.startswith('dragoman.')])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_every_public_name_is_found() -> None:
    import dragoman

    for name in dragoman.__all__:
        assert getattr(dragoman, name) is not None
    with pytest.raises(AttributeError):
        dragoman.nothing  # noqa: B018
