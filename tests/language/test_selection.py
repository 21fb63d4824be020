"""Selective consumers that share a group lose nothing, and those with their own copy skip in silence."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman import Client, EndpointOptions, controller, endpoint, record
from dragoman.client.history import messages_of
from dragoman.core.errors import ClientError, StartupError
from dragoman.core.message import Message
from dragoman.language.lint import lint_text
from dragoman.language.model import Model
from dragoman.language.parser import parse_strictly
from dragoman.language.selection import selecting_otherwise
from dragoman.schema.markers import Double, Int
from tests.client.waiting import until

SMALL = 'where consumed if "$message.payload#/amount" < 100'
LARGE = 'where consumed if "$message.payload#/amount" >= 100'
_numbers = count()


@record(namespace="Sel")
class Order:
    id: Int
    amount: Double


@record(namespace="Sel")
class Receipt:
    id: Int


def text(type: str = "of type POINT_TO_POINT", small: str = SMALL, large: str = LARGE) -> str:
    return (
        'API description Sel data type Order { "id": ID<int>, "amount": D<double> } '
        f'channel Orders {type} on path "orders" accepts message PlaceOrder expecting payload Order '
        "message endpoint Shop uses channels: Orders "
        f"message endpoint Small provides channels: Orders {small} "
        f"message endpoint Large provides channels: Orders {large} "
    )


def conflicts(source: str) -> list[str]:
    return [each.message for each in lint_text(source) if each.rule == "conflicting-selection"]


class Take:
    """What the two endpoints were given."""

    def __init__(self) -> None:
        self.small: list[float] = []
        self.large: list[float] = []

    def endpoints(self, **given: Any) -> tuple[Any, Any]:
        @endpoint("orders", **({"group": "small"} | given))
        async def on_small(order: Order) -> None:
            self.small.append(order.amount)

        @endpoint("orders", **({"group": "large"} | given))
        async def on_large(order: Order) -> None:
            self.large.append(order.amount)

        return on_small, on_large


def letters(client: Client, channel: str = "orders.dead") -> list[Message]:
    log: Any = client.broker.log()  # type: ignore[attr-defined]
    return [
        message
        for partition, (start, end) in log.partitions(channel).items()
        if end > start
        for message in messages_of(log.read(channel, partition, start, end), channel, partition)
    ]


@asynccontextmanager
async def running(file: Path, small: Any, large: Any) -> AsyncIterator[tuple[Client, Client, Client]]:
    async with AsyncExitStack() as stack:
        first = Client(f"memory://selection-{next(_numbers)}", "memory://", [small], model=file, as_="Small")
        await stack.enter_async_context(first)
        second = Client(first.broker, first.registry, [large], model=file, as_="Large")
        await stack.enter_async_context(second)
        shop = Client(first.broker, first.registry, model=file, as_="Shop")
        yield first, second, await stack.enter_async_context(shop)


def amount(number: int) -> float:
    return 50.0 if number % 2 else 150.0


async def publish(shop: Client, many: int = 40) -> None:
    """A small and a large order go to the same partition, so each member gets both kinds."""
    for number in range(many):
        await shop.publish("orders", Order(number, amount(number)), key=str(number // 2))


@pytest.mark.parametrize("batch", [False, True])
async def test_what_a_sharing_consumer_does_not_want_is_a_dead_letter(tmp_path: Path, batch: bool) -> None:
    file, seen = tmp_path / "m.mdsl", Take()
    file.write_text(text())
    small, large = seen.endpoints()
    if batch:

        @endpoint("orders", options=EndpointOptions(batch_size=5, batch_wait=0.01))
        async def small(orders: list[Order]) -> None:
            seen.small.extend(each.amount for each in orders)

        @endpoint("orders", options=EndpointOptions(batch_size=5, batch_wait=0.01))
        async def large(orders: list[Order]) -> None:
            seen.large.extend(each.amount for each in orders)

    async with running(file, small, large) as (first, second, shop):
        await publish(shop)
        await until(lambda: len(seen.small) + len(seen.large) + len(letters(first)) == 40)
        assert set(seen.small) <= {50.0} and set(seen.large) <= {150.0}
        found = letters(first)
        counts = [first.metrics.of("orders"), second.metrics.of("orders")]
        await until(lambda: sum(each.dead for each in counts) == len(found))
        assert sum(each.unselected for each in counts) == 0
        assert len(found) == 20
        for letter in found:
            assert letter.header("dragoman-error-code") == b"message.unselected"
            said = (letter.header("dragoman-error-message") or b"").decode()
            assert "Large may take it" in said or "Small may take it" in said
            assert "50.0" not in said and "150.0" not in said


@pytest.mark.parametrize("other", ["orders.eu", "orders.us"], ids=["same value", "other value"])
async def test_on_a_path_with_parameters_no_model_is_at_fault_and_no_message_is_lost(
    tmp_path: Path, other: str
) -> None:
    """Which values the others take is not known, so a message may be a dead letter that none could get."""
    file = tmp_path / "m.mdsl"
    model = text().replace('on path "orders"', 'on path "orders/${region}" with region: string')
    file.write_text(model)
    assert conflicts(model) == []

    @endpoint("orders.eu")
    async def small(order: Order) -> None: ...

    @endpoint(other)
    async def large(order: Order) -> None: ...

    async with running(file, small, large) as (first, second, shop):
        await shop.publish_many("orders.eu", [Order(number, amount(number)) for number in range(40)])
        counts = [each.metrics.of("orders.eu") for each in (first, second)]
        await until(lambda: sum(each.handled + each.dead for each in counts) == 40)
        assert sum(each.unselected for each in counts) == 0
        assert len(letters(first, "orders.eu.dead")) == sum(each.dead for each in counts)
        if other == "orders.us":
            assert counts[0].dead == 20


async def test_what_no_sharing_consumer_wants_is_a_dead_letter_too(tmp_path: Path) -> None:
    file, seen = tmp_path / "m.mdsl", Take()
    file.write_text(text(large=LARGE.replace("100", "1000")))
    async with running(file, *seen.endpoints()) as (first, _, shop):
        await shop.publish("orders", Order(1, 500.0))
        await until(lambda: letters(first))
        assert b"wants it either" in (letters(first)[0].header("dragoman-error-message") or b"")
    assert seen.small == seen.large == []


async def test_without_a_dead_letter_channel_it_is_never_acknowledged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file, seen = tmp_path / "m.mdsl", Take()
    file.write_text(text())
    small, _ = seen.endpoints(options=EndpointOptions(dead_letter=None))
    broker = f"memory://selection-{next(_numbers)}"
    async with (
        Client(broker, "memory://", [small], model=file, as_="Small") as client,
        Client(client.broker, client.registry, model=file, as_="Shop") as shop,
    ):
        await shop.publish("orders", Order(1, 150.0))
        await until(lambda: "there is no channel for such messages" in caplog.text)
        lag = await client.broker.lag("orders", "Orders")
        assert sum(each.behind for each in lag) == 1
        counts = client.metrics.of("orders")
        assert (counts.unselected, counts.dead, counts.handled) == (0, 0, 0)


@pytest.mark.parametrize("type", ["of type PUBLISH_SUBSCRIBE", ""])
async def test_a_consumer_with_its_own_copy_skips_in_silence(tmp_path: Path, type: str) -> None:
    file, seen = tmp_path / "m.mdsl", Take()
    file.write_text(text(type))
    async with running(file, *seen.endpoints()) as (first, second, shop):
        await publish(shop)
        await until(lambda: len(seen.small) == len(seen.large) == 20)
        for each in (first, second):
            await until(lambda each=each: each.metrics.of("orders").unselected == 20)  # type: ignore[misc]
            assert each.metrics.of("orders").handled == 20
        assert letters(first) == []


async def test_consumers_that_select_alike_skip_in_silence(tmp_path: Path) -> None:
    file, seen = tmp_path / "m.mdsl", Take()
    file.write_text(text(small=LARGE, large=LARGE.replace("100", "100.0")))
    async with running(file, *seen.endpoints()) as (first, second, shop):
        await publish(shop)
        counts = [first.metrics.of("orders"), second.metrics.of("orders")]
        await until(lambda: sum(each.unselected for each in counts) == 20)
        await until(lambda: len(seen.small) + len(seen.large) == 20)
        assert letters(first) == []


@pytest.mark.parametrize("type", ["of type PUBLISH_SUBSCRIBE", ""])
@pytest.mark.parametrize("selecting", ["model", "code"])
async def test_a_selective_consumer_in_the_group_of_all_is_refused(
    tmp_path: Path, type: str, selecting: str
) -> None:
    file, seen = tmp_path / "m.mdsl", Take()
    options = EndpointOptions(consumed_if="payload.amount < 100" if selecting == "code" else None)
    file.write_text(text(type, small="" if selecting == "code" else SMALL))
    small, _ = seen.endpoints(group=None, options=options)
    with pytest.raises(StartupError, match=r"so may Large; name a group of its own, such as group='Small'"):
        async with Client("memory://no", "memory://", [small], model=file, as_="Small"):
            pass


@pytest.mark.parametrize("group", ["one", "default", "Large", "smaller", "Small_2"])
async def test_a_selective_consumer_in_a_group_that_others_may_name_is_refused(
    tmp_path: Path, group: str
) -> None:
    """Two processes of other endpoints in it would each skip, and lose, what the other wants."""
    file, seen = tmp_path / "m.mdsl", Take()
    file.write_text(text("of type PUBLISH_SUBSCRIBE"))
    small, _ = seen.endpoints(group=group)
    with pytest.raises(
        StartupError, match=rf"the group '{group}', and so may Large; name a group of its own"
    ):
        async with Client("memory://no", "memory://", [small], model=file, as_="Small"):
            pass


@pytest.mark.parametrize("group", ["Small", "small", "small-2", "small.eu"])
async def test_a_selective_consumer_has_a_group_of_its_own_name(tmp_path: Path, group: str) -> None:
    file = tmp_path / "m.mdsl"
    file.write_text(text("of type PUBLISH_SUBSCRIBE"))

    @controller(group=group)
    class Named:
        @endpoint("orders")
        async def on_order(self, order: Order) -> None: ...

    async with Client("memory://no", "memory://", [Named], model=file, as_="Small"):
        pass


async def test_a_condition_in_the_code_is_refused_where_others_share_the_group(tmp_path: Path) -> None:
    file, seen = tmp_path / "m.mdsl", Take()
    file.write_text(text(small="", large=""))
    small, _ = seen.endpoints(options=EndpointOptions(consumed_if="payload.amount < 100"))
    with pytest.raises(StartupError, match=r"consumed_if throws away what Large of the same group may want"):
        async with Client("memory://no", "memory://", [small], model=file, as_="Small"):
            pass


async def test_who_asks_is_told_that_the_request_was_not_wanted(tmp_path: Path) -> None:
    file = tmp_path / "m.mdsl"
    file.write_text(
        'API description Sel data type Order { "id": ID<int>, "amount": D<double> } '
        'data type Receipt { "id": ID<int> } '
        'channel Orders of type POINT_TO_POINT request message Ask on path "orders" expecting payload Order '
        'reply message Tell on path "receipts" delivering payload Receipt '
        "message endpoint Shop uses channels: Orders "
        f"message endpoint Small provides channels: Ask {SMALL}, Tell "
        f"message endpoint Large provides channels: Ask {LARGE}, Tell "
    )

    @endpoint("orders", reply_to="receipts")
    async def on_small(order: Order) -> Receipt:
        return Receipt(order.id)

    broker = f"memory://selection-{next(_numbers)}"
    async with (
        Client(broker, "memory://", [on_small], model=file, as_="Small") as small,
        Client(small.broker, small.registry, model=file, as_="Shop") as shop,
    ):
        reply = await shop.request("orders", Order(1, 50.0), reply=Receipt, timeout=60.0)
        assert reply == Receipt(1)
        with pytest.raises(ClientError) as raised:
            await shop.request("orders", Order(2, 150.0), reply=Receipt, timeout=60.0)
    assert raised.value.where["error_code"] == "message.unselected"


def test_lint_finds_each_endpoint_that_throws_away_what_another_wants() -> None:
    assert len(conflicts(text())) == 2
    assert len(conflicts(text(large=""))) == 1
    assert conflicts(text("of type PUBLISH_SUBSCRIBE")) == []
    assert conflicts(text(large=SMALL)) == []


def test_lint_leaves_alone_what_cannot_be_shared() -> None:
    apart = text().replace("provides channels", "provides from A:", 1).replace("A:: ", "A: ")
    apart = apart.replace("provides channels", "provides from B:", 1).replace("B:: ", "B: ")
    brokers = (
        'message broker A exposes Orders at location "amqp://a" via protocol AMQP '
        'message broker B exposes Orders at location "amqp://b" via protocol AMQP '
    )
    assert parse_strictly(apart + brokers)
    assert conflicts(apart + brokers) == []
    assert len(conflicts(apart.replace("from B", "from A") + brokers)) == 2
    by_value = text().replace('path "orders"', 'path "orders/${shop}" with shop: int')
    assert conflicts(by_value) == []


PARTS = st.tuples(
    st.sampled_from(["$message.payload#/id", "$message.payload#/amount", "$message.header#/kind"]),
    st.sampled_from(["==", "!=", "<", "<=", ">", ">="]),
    st.sampled_from(["0", "1", '"x"', "9007199254740992", "9007199254740993", "100", "1.5"]),
)


@given(st.lists(PARTS, min_size=1, max_size=4), st.lists(PARTS, max_size=4), st.randoms())
def test_conditions_are_the_same_in_any_order_and_however_often_said(
    mine: list[tuple[str, str, str]], other: list[tuple[str, str, str]], random: Any
) -> None:
    def where(parts: list[tuple[str, str, str]]) -> str:
        said = ", ".join(f'consumed if "{left}" {how} {right}' for left, how, right in parts)
        return f"where {said}" if parts else ""

    shuffled = [*mine, mine[0]]
    random.shuffle(shuffled)
    again = [(left.replace("header#", "headers#"), how, right) for left, how, right in shuffled]
    assert not _differ(where(mine), where(again))
    assert _differ(where(mine), where(other)) == (set(mine) != set(other))


def _differ(small: str, large: str) -> bool:
    model = Model(parse_strictly(text(small=small, large=large)))
    one = next(each for each in model.interactions_of("Small") if each.receives)
    return bool(selecting_otherwise(model, one))
