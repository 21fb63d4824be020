"""Messages and a database that agree: the idempotent receiver, the outbox and its relay."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import CancelledError
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import pytest

from dragoman import (
    DONE,
    Client,
    Delivery,
    EndpointOptions,
    LaterOptions,
    Message,
    Outcome,
    Position,
    Producer,
    RetryOptions,
    To,
    endpoint,
    record,
)
from dragoman.adapters.memory import MemoryBroker
from dragoman.adapters.sqlite import SqliteDatabase
from dragoman.client import headers
from dragoman.client.delivery import Route
from dragoman.client.options import ClientOptions
from dragoman.client.role import Sending
from dragoman.client.transactional.brokered import in_transaction
from dragoman.client.transactional.leasing import Lease
from dragoman.client.transactional.outbox import Outbox
from dragoman.client.transactional.tables import LEASES, create_tables
from dragoman.core.channel import Channel
from dragoman.core.database import Database, Transaction
from dragoman.core.errors import ClientError, StartupError
from dragoman.core.loading import DATABASES, load, scheme_of
from dragoman.core.registry import Registry
from tests.client.conftest import payloads
from tests.client.waiting import until

ONCE = EndpointOptions(retry=RetryOptions(attempts=1))


@record
class Transfer:
    number: int
    amount: int


@record
class Receipt:
    number: int
    balance: int


@record
class Refused(Exception):
    call: int


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    database = SqliteDatabase(f"sqlite://{tmp_path / 'app.db'}")
    with database.transaction() as tx:
        tx.execute("CREATE TABLE account (balance INTEGER NOT NULL)")
        tx.execute("INSERT INTO account VALUES (0)")
    yield database
    database.close()


@pytest.fixture(params=["postgres", "mariadb"])
def server_url(request: pytest.FixtureRequest) -> str:
    return str(request.getfixturevalue(f"{request.param}_server").url)


def balance(database: Database) -> int:
    with database.transaction(write=False) as tx:
        return int(tx.execute("SELECT balance FROM account")[0][0])


@endpoint("transfers", reply_to="receipts", options=ONCE)
def on_transfer(transfer: Transfer, tx: Transaction) -> Receipt:
    tx.execute("UPDATE account SET balance = balance + ?", (transfer.amount,))
    if transfer.amount < 0:
        raise ValueError("Nothing is given back.")
    return Receipt(transfer.number, int(tx.execute("SELECT balance FROM account")[0][0]))


async def test_a_message_that_is_sent_twice_has_its_effect_once_and_the_same_reply(
    memory: MemoryBroker, registry: Registry, database: Database
) -> None:
    async with Client(memory, registry, [on_transfer], database=database) as client:
        for _ in range(3):
            await client.publish("transfers", Transfer(1, 5), headers={headers.MESSAGE_ID: "t-1"})
        await client.publish("transfers", Transfer(2, 7))
        await client.publish("transfers", Transfer(2, 7))
        await until(lambda: client.metrics.of("transfers").handled == 5)
        assert client.metrics.of("transfers").repeated == 2
    assert balance(database) == 19
    replies = [each.payload for each in payloads(memory, "receipts")]
    assert len(replies) == 5
    assert len(set(replies)) == 3, "a repeated request is answered as it was the first time"


async def test_a_request_that_comes_again_is_answered_again(
    memory: MemoryBroker, registry: Registry, database: Database
) -> None:
    async with Client(memory, registry, [on_transfer], database=database) as client:
        for _ in range(2):
            reply = await client.request(
                "transfers", Transfer(1, 5), reply=Receipt, headers={headers.MESSAGE_ID: "t-1"}
            )
            assert reply == Receipt(1, 5)
    assert balance(database) == 5


async def test_a_declared_error_takes_the_work_back_and_is_told_the_same_way_again(
    memory: MemoryBroker, registry: Registry, database: Database
) -> None:
    calls: list[int] = []

    @endpoint("transfers", raises=[Refused], options=ONCE)
    def on_transfer(transfer: Transfer, tx: Transaction) -> Receipt:
        calls.append(1)
        tx.execute("UPDATE account SET balance = balance + ?", (transfer.amount,))
        raise Refused(len(calls))

    async with Client(memory, registry, [on_transfer], database=database) as client:
        for _ in range(2):
            with pytest.raises(Refused) as caught:
                await client.request(
                    "transfers",
                    Transfer(1, 5),
                    reply=Receipt,
                    raises=[Refused],
                    headers={headers.MESSAGE_ID: "t-1"},
                )
            assert caught.value.call == 1
    assert balance(database) == 0
    assert calls == [1]


async def test_messages_are_told_apart_by_a_place_in_the_payload(
    memory: MemoryBroker, registry: Registry, database: Database
) -> None:
    @endpoint("transfers", identity="$message.payload#/number")
    def on_transfer(transfer: Transfer, tx: Transaction) -> None:
        tx.execute("UPDATE account SET balance = balance + ?", (transfer.amount,))

    async with Client(memory, registry, [on_transfer], database=database) as client:
        for number in (1, 2, 1, 2, 3):
            await client.publish("transfers", Transfer(number, 10))
        await until(lambda: client.metrics.of("transfers").handled == 5)
    assert balance(database) == 30


async def test_what_a_failing_handler_wrote_is_taken_back(
    memory: MemoryBroker, registry: Registry, database: Database
) -> None:
    async with Client(memory, registry, [on_transfer], database=database) as client:
        await client.publish("transfers", Transfer(1, -5), headers={headers.MESSAGE_ID: "t-1"})
        await until(lambda: client.metrics.of("transfers").dead)
        # It was not handled, so it may be sent again.
        await client.publish("transfers", Transfer(1, 5), headers={headers.MESSAGE_ID: "t-1"})
        await until(lambda: client.metrics.of("transfers").handled)
    assert balance(database) == 5


async def test_each_group_handles_a_message_once(
    memory: MemoryBroker, registry: Registry, database: Database
) -> None:
    @endpoint("transfers", group="audit")
    def audit(transfer: Transfer, tx: Transaction) -> None:
        tx.execute("UPDATE account SET balance = balance + 100")

    async with Client(memory, registry, [on_transfer, audit], database=database) as client:
        await client.publish("transfers", Transfer(1, 5))
        await until(lambda: client.metrics.of("transfers").handled == 2)
    assert balance(database) == 105


async def test_a_channel_made_anew_is_not_taken_for_the_old_one(
    memory: MemoryBroker, registry: Registry, database: Database
) -> None:
    for round in (1, 2):
        async with Client(memory, registry, [on_transfer], database=database) as client:
            await client.publish("transfers", Transfer(round, 5), partition=0)
            await until(lambda client=client: client.metrics.of("transfers").handled)
        await memory.delete("transfers")
        moment = int(time.time() * 1000)
        await until(lambda moment=moment: int(time.time() * 1000) > moment)
    assert balance(database) == 10


async def test_a_transaction_needs_a_database_and_a_thread(memory: MemoryBroker, registry: Registry) -> None:
    @endpoint("transfers")
    async def wrong(transfer: Transfer, tx: Transaction) -> None: ...

    with pytest.raises(StartupError) as caught:
        async with Client(memory, registry, [wrong]):
            pass
    assert "'tx' needs a database" in str(caught.value)
    assert "would block the event loop" in str(caught.value)


async def test_a_broker_without_transactions_is_refused(memory: MemoryBroker, registry: Registry) -> None:
    @endpoint("transfers", transactional=True)
    async def wrong(transfer: Transfer) -> None: ...

    with pytest.raises(StartupError, match="The broker has no transactions"):
        async with Client(memory, registry, [wrong]):
            pass


class Recording(MemoryBroker):
    """A broker with transactions that only writes down what is in them."""

    transacted: list[Message]
    done: Sequence[Message]

    async def transact(
        self, messages: Sequence[Message], receiver: object = None, done: Sequence[Message] = ()
    ) -> Sequence[Position | None]:
        for message in messages:
            await self.describe(message.channel)
        self.transacted, self.done = list(messages), done
        return [None] * len(messages)


async def test_a_large_object_is_part_of_the_transaction_with_all_its_parts(registry: Registry) -> None:
    broker = Recording("memory://parts")
    await broker.connect()
    async with Client(broker, registry) as client:
        receipts = await client.producer("receipts", Receipt)

        async def handle(delivery: Delivery) -> Outcome:
            await receipts.publish_in_parts(Receipt(1, 2), part_size=2)
            return DONE

        message = Message("transfers", b"", None, ())
        await in_transaction(handle, broker)(Delivery(message, Route("", "", bytes)))
        assert payloads(broker, "receipts") == []
    await broker.close()
    sizes = [int(each.header(headers.SEQUENCE_SIZE) or 0) for each in broker.transacted]
    assert sizes == [len(sizes)] * len(sizes)
    assert len(sizes) > 1


async def test_what_a_handler_leaves_behind_publishes_for_itself_when_the_transaction_is_over(
    registry: Registry,
) -> None:
    broker = Recording("memory://left-behind")
    await broker.connect()
    over = asyncio.Event()
    async with Client(broker, registry) as client:
        receipts = await client.producer("receipts", Receipt)

        async def publish_later() -> None:
            await over.wait()
            await receipts.publish(Receipt(1, 2))

        left_behind: list[asyncio.Task[None]] = []

        async def handle(delivery: Delivery) -> Outcome:
            left_behind.append(asyncio.create_task(publish_later()))
            return DONE

        message = Message("transfers", b"", None, ())
        await in_transaction(handle, broker)(Delivery(message, Route("", "", bytes)))
        over.set()
        await asyncio.gather(*left_behind)
        assert len(payloads(broker, "receipts")) == 1
    await broker.close()
    assert broker.transacted == []


async def test_a_requester_who_has_left_does_not_make_the_transaction_fail(registry: Registry) -> None:
    broker = Recording("memory://left")
    broker.capabilities = replace(broker.capabilities, transactions=True)
    await broker.connect()

    @endpoint("transfers", transactional=True, options=ONCE)
    async def on_transfer(transfer: Transfer, notes: Annotated[Producer[Transfer], To("notes")]) -> Receipt:
        await notes.publish(transfer)
        return Receipt(transfer.number, 0)

    async with Client(broker, registry, [on_transfer]) as client:
        await client.publish("transfers", Transfer(7, 1), headers={headers.REPLY_TO: "gone"})
        await until(lambda: client.metrics.of("transfers").handled)
        assert [message.channel for message in broker.transacted] == ["notes"]
        await broker.delete("notes")
        await client.publish("transfers", Transfer(8, 1), headers={headers.REPLY_TO: "gone"})
        await until(lambda: client.metrics.of("transfers").dead)
    await broker.close()


async def test_what_is_tried_later_is_acknowledged_where_it_waited(registry: Registry) -> None:
    broker = Recording("memory://tried-later")
    broker.capabilities = replace(broker.capabilities, transactions=True, delayed_delivery=False)
    await broker.connect()
    tries: list[int] = []
    later = replace(ONCE, later=LaterOptions(delays=(0.0,)))

    @endpoint("transfers", transactional=True, options=later)
    async def on_transfer(transfer: Transfer) -> None:
        tries.append(transfer.number)
        if len(tries) == 1:
            raise ValueError

    async with Client(broker, registry, [on_transfer]) as client:
        await client.publish("transfers", Transfer(7, 1))
        await until(lambda: client.metrics.of("transfers").handled)
    await broker.close()
    assert tries == [7, 7]
    assert [message.channel for message in broker.done] == ["transfers.retry.default.1"]


async def test_a_cancellation_inside_a_transaction_is_a_failure_like_others(
    memory: MemoryBroker, registry: Registry, database: Database
) -> None:
    @endpoint("transfers", options=ONCE)
    def on_transfer(transfer: Transfer, tx: Transaction) -> None:
        tx.execute("UPDATE account SET balance = balance + 1")
        raise CancelledError

    async with Client(memory, registry, [on_transfer], database=database) as client:
        await client.publish("transfers", Transfer(1, 1))
        await until(lambda: client.metrics.of("transfers").dead)
    assert balance(database) == 0


async def test_ids_that_are_not_text_are_told_apart(
    memory: MemoryBroker, registry: Registry, database: Database
) -> None:
    async with Client(memory, registry, [on_transfer], database=database) as client:
        for id in (b"\xff", b"\xfe", b"\xff"):
            await client.publish("transfers", Transfer(1, 1), headers={headers.MESSAGE_ID: id})
        await until(lambda: client.metrics.of("transfers").handled == 3)
    assert balance(database) == 2


async def test_the_outbox_publishes_what_is_committed_and_nothing_else(
    memory: MemoryBroker, registry: Registry, database: Database
) -> None:
    async with Client(memory, registry, database=database) as client:
        receipts = await client.outbox("receipts", Receipt)
        with pytest.raises(ValueError, match="changed my mind"), client.database.transaction() as tx:
            receipts.publish(tx, Receipt(0, 0), key="k")
            raise ValueError("I have changed my mind.")
        for number in range(1, 251):
            with client.database.transaction() as tx:
                tx.execute("UPDATE account SET balance = balance + 1")
                receipts.publish(tx, Receipt(number, number), key="k", headers={"a": "1"})
        await until(lambda: len(payloads(memory, "receipts")) == 250)
        bound = await client._run._contracts.bind("receipts", Receipt)
    sent = payloads(memory, "receipts")
    assert [each.payload for each in sent] == [bound.encode(Receipt(n, n)) for n in range(1, 251)]
    assert len({each.header(headers.MESSAGE_ID) for each in sent}) == 250
    assert {(each.key, each.header("a")) for each in sent} == {(b"k", b"1")}
    with database.transaction(write=False) as tx:
        assert tx.execute("SELECT COUNT(*) FROM dragoman_outbox") in ([(0,)], ((0,),))


async def test_the_outbox_obeys_what_is_said_of_its_channel(
    memory: MemoryBroker, registry: Registry, database: Database
) -> None:
    async with Client(memory, registry, database=database) as client:
        await client.producer("receipts", Receipt)
        running = client._run
        bound = await running._contracts.bind("receipts", Receipt)
        receipts: Outbox[Receipt] = running.require_storage().outbox(
            "receipts", bound, Sending(60.0, in_parts=True)
        )
        with database.transaction() as tx:
            id = receipts.publish(tx, Receipt(1, 2), key="k")
        await until(lambda: payloads(memory, "receipts"))
    [part] = payloads(memory, "receipts")
    assert part.header(headers.EXPIRES_AT) is not None
    assert part.header(headers.SEQUENCE_SIZE) == b"1"
    assert part.header(headers.MESSAGE_ID) == f"{id}/0".encode()


async def test_an_endpoint_writes_to_the_outbox_in_its_own_transaction(
    memory: MemoryBroker, registry: Registry, database: Database
) -> None:
    @endpoint("transfers", options=ONCE)
    def on_transfer(
        transfer: Transfer, tx: Transaction, receipts: Annotated[Outbox[Receipt], To("receipts")]
    ) -> None:
        receipts.publish(tx, Receipt(transfer.number, 0))
        if transfer.amount < 0:
            raise ValueError("Nothing is given back.")

    async with Client(memory, registry, [on_transfer], database=database) as client:
        await client.publish("transfers", Transfer(1, -1))
        for _ in range(2):
            await client.publish("transfers", Transfer(2, 1), headers={headers.MESSAGE_ID: "t-2"})
        await until(lambda: client.metrics.of("transfers").handled == 2)
        await until(lambda: payloads(memory, "receipts"))
        await client.publish("transfers", Transfer(3, 1))
        await until(lambda: len(payloads(memory, "receipts")) == 2)


async def test_a_channel_that_is_gone_does_not_hold_up_the_others(
    memory: MemoryBroker, registry: Registry, database: Database
) -> None:
    async with Client(memory, registry, database=database, options=ClientOptions(relay=False)) as client:
        lost, kept = await client.outbox("lost", Receipt), await client.outbox("kept", Receipt)
        with client.database.transaction() as tx:
            for number in range(3):
                lost.publish(tx, Receipt(number, 0))
                kept.publish(tx, Receipt(number, 0))
    await memory.delete("lost")
    async with Client(memory, registry, database=database):
        await until(lambda: len(payloads(memory, "kept")) == 3)
        with database.transaction(write=False) as tx:
            assert len(tx.execute("SELECT id FROM dragoman_outbox WHERE channel = 'lost'")) == 3
    await memory.create(Channel("lost"))
    async with Client(memory, registry, database=database):
        await until(lambda: len(payloads(memory, "lost")) == 3)
    assert len(payloads(memory, "kept")) == 3


async def test_without_a_database_there_is_no_outbox(memory: MemoryBroker, registry: Registry) -> None:
    async with Client(memory, registry) as client:
        with pytest.raises(ClientError, match="no database"):
            await client.outbox("receipts", Receipt)


def test_a_lease_is_had_by_one_until_it_is_given_up(database: Database) -> None:
    create_tables(database, (LEASES,))
    one, two = Lease(database, "n", 3600), Lease(database, "n", 3600)
    assert one.take()
    assert not two.take()
    assert one.take()
    one.give_up()
    assert two.take()
    assert not one.take()


@pytest.mark.parametrize("step", [-3600.0, 0.0, 3600.0])
def test_a_lease_is_taken_over_once_it_was_not_renewed_for_its_time(
    database: Database, monkeypatch: pytest.MonkeyPatch, step: float
) -> None:
    """Steps of the clock change nothing, and neither do processes whose clocks differ."""
    create_tables(database, (LEASES,))
    clock = SteppedClock()
    monkeypatch.setattr("dragoman.client.transactional.leasing.time", clock)
    holder, other = Lease(database, "n", 10.0), Lease(database, "n", 10.0)
    assert holder.take()
    assert not other.take()
    clock.wall += step
    for _ in range(5):
        clock.seconds += 9.0
        assert holder.take()
        assert not other.take()
    clock.wall -= step
    clock.seconds += 9.0
    assert not other.take()
    clock.seconds += 2.0
    assert other.take(), "the holder was silent for its lease"
    assert not holder.take()


class SteppedClock:
    """Stands in for the module ``time``: the wall clock can be set, the other one only goes on."""

    def __init__(self) -> None:
        self.seconds = 1000.0
        self.wall = 1_700_000_000.0

    def monotonic(self) -> float:
        return self.seconds

    def time(self) -> float:
        return self.wall + self.seconds


async def test_the_same_on_a_server(memory: MemoryBroker, registry: Registry, server_url: str) -> None:
    """Several members of one group, the same message many times, and the outbox."""
    database: Database = load(DATABASES, scheme_of(server_url))(server_url)
    with database.transaction() as tx:
        for table in ("account", "dragoman_handled", "dragoman_outbox", "dragoman_leases"):
            tx.execute(f"DROP TABLE IF EXISTS {table}")
        tx.execute("CREATE TABLE account (balance INTEGER NOT NULL)")
        tx.execute("INSERT INTO account VALUES (0)")

    @endpoint("transfers", identity="$message.payload#/number", options=EndpointOptions(concurrency=4))
    def on_transfer(
        transfer: Transfer, tx: Transaction, receipts: Annotated[Outbox[Receipt], To("receipts")]
    ) -> None:
        tx.execute("UPDATE account SET balance = balance + ?", (transfer.amount,))
        receipts.publish(tx, Receipt(transfer.number, 0), key=b"\xff\0")

    try:
        async with (
            Client(memory, registry, [on_transfer], database=database) as one,
            Client(memory, registry, [on_transfer], database=server_url) as two,
        ):
            await one.publish_many("transfers", [Transfer(number % 10, 1) for number in range(60)])
            clients = (one, two)
            await until(lambda: sum(each.metrics.of("transfers").handled for each in clients) == 60)
            # The relay that takes over from a silent one may send a receipt again, under the same id.
            await until(lambda: len(_ids(memory)) == 10)
        assert balance(database) == 10
        assert {each.key for each in payloads(memory, "receipts")} == {b"\xff\0"}
    finally:
        database.close()


def _ids(memory: MemoryBroker) -> set[bytes | None]:
    return {each.header(headers.MESSAGE_ID) for each in payloads(memory, "receipts")}
