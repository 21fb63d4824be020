"""Orchestrators: who takes which request, what is answered, and what follows from requests."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated

import pytest

from dragoman import Client, ClientOptions, EndpointOptions, Message, RetryOptions, record
from dragoman import timeout as handler_timeout
from dragoman.core.broker import Subscription
from dragoman.core.errors import ConfigurationError, EncodeError, GatewayError, NotNow, RequestFailed
from dragoman.gateway.envelope import Datum, Envelope, datum, failed, from_data, nested, parts, response
from dragoman.gateway.gateway import Gateway
from dragoman.gateway.orchestration import Call, Outcomes, Passes, on, orchestrator
from dragoman.gateway.policy import Policy, Rule, Ttl
from dragoman.schema.markers import Min
from tests.client.test_endings import FAILING, End, named
from tests.gateway.kit import ask, collect, running
from tests.gateway.test_drop_off import changed, drop

QUICK = EndpointOptions(retry=RetryOptions(attempts=2, delay=0.001), concurrency=16)
RULE = Rule(resource="service.shares", hops=4)


@record
class Wanted:
    share: str
    days: Annotated[int, Min(1)] = 1


@record
class Movement:
    share: str
    change: float


@asynccontextmanager
async def answering(*controllers: object, **changes: object) -> AsyncIterator[Gateway]:
    """A gateway with these orchestrators on its broker."""
    given = {"policy": Policy((RULE,), Ttl.HOPS), **changes}
    async with (
        running(**given) as gateway,
        Client(
            gateway.client.broker,
            gateway.client.registry,
            controllers,
            options=ClientOptions(drain_timeout=0.1),
        ),
    ):
        yield gateway


async def asked(gateway: Gateway, envelope: Envelope) -> Envelope:
    await drop(gateway, envelope)
    async with asyncio.timeout(120):
        while True:
            found = await collect(gateway, envelope, wait=30.0)
            if found is not None:
                return found


@orchestrator("service.shares", options=QUICK)
class Shares:
    """Answers in every way there is."""

    def __init__(self) -> None:
        self.tries = 0

    @on("select", "movement")
    async def movement(self, wanted: Wanted) -> Movement:
        return Movement(wanted.share, 1.5 * wanted.days)

    @on("select", "movement", version="v2")
    def later_movement(self, wanted: Wanted) -> list[Datum]:
        return [datum("version", "two"), datum("share", wanted.share)]

    @on("select", "price")
    async def price(self, envelope: Envelope) -> list[Datum]:
        return [datum("entity", envelope.destination.entity or "")]

    @on("insert")
    @on("update")
    async def change(self, wanted: Wanted) -> None:
        pass

    @on("process", "impossible")
    async def impossible(self) -> None:
        raise RequestFailed("There is no such share.", status="Not Found")

    @on("process", "broken")
    async def broken(self) -> None:
        self.tries += 1
        raise RuntimeError("a secret of the house")

    @on("process", "hopeless")
    async def hopeless(self) -> None:
        self.tries += 2
        raise EncodeError("It will not fit the next time either.")

    @on("process", "slow", timeout=0.01)
    async def slow(self) -> None:
        self.tries += 1
        await asyncio.Event().wait()


async def test_a_record_in_the_data_is_answered_with_a_record() -> None:
    async with answering(Shares) as gateway:
        found = await asked(gateway, ask(data=Wanted("ACME", 2)))
        assert from_data(found.data, Movement) == Movement("ACME", 3.0)
        assert found.destination.resource == "service.collection"
        assert found.client.source_endpoint == "service.shares"


async def test_method_entity_and_version_choose_the_method() -> None:
    async with answering(Shares) as gateway:
        wanted = Wanted("ACME")
        newer = await asked(gateway, ask(data=wanted, version="v2"))
        assert newer.text("version") == "two"
        price = await asked(gateway, ask("price"))
        assert price.text("entity") == "price"
        for method in ("insert", "update"):
            done = await asked(gateway, changed(ask("anything", data=wanted), "destination", method=method))
            assert done.text("status") == "OK"
            assert failed(done) is None


async def test_failures_are_answers_too() -> None:
    async with answering(Shares) as gateway:
        unknown = await asked(gateway, ask("chart"))
        assert failed(unknown) == ("Unsupported", "Nobody here does this.")
        impossible = await asked(gateway, changed(ask("impossible"), "destination", method="process"))
        assert failed(impossible) == ("Not Found", "There is no such share.")
        for data in (
            [],
            [datum("share", "A"), datum("days", "many")],
            [datum("share", "A"), datum("days", "0")],
        ):
            invalid = await asked(gateway, ask(data=data))
            problem = failed(invalid)
            assert problem is not None
            assert problem.status == "Invalid"


@pytest.mark.parametrize("entity", ["broken", "slow", "hopeless"])
async def test_an_error_is_tried_again_then_answered_and_kept_as_a_dead_letter(entity: str) -> None:
    shares = Shares()
    async with answering(shares) as gateway:
        found = await asked(gateway, changed(ask(entity), "destination", method="process"))
        assert failed(found) == ("Failed", "The request could not be handled.")
        assert shares.tries == 2
        async with asyncio.timeout(60):
            while not sum(
                end for _, end in gateway.client.broker.log().partitions("service.shares.dead").values()
            ):
                await asyncio.sleep(0.01)


@pytest.mark.parametrize("tries", [1, 3])
@pytest.mark.parametrize("end", FAILING, ids=named)
async def test_however_a_method_ends_who_waits_is_told_once(end: End, tries: int) -> None:
    @orchestrator("service.shares", options=EndpointOptions(retry=RetryOptions(attempts=tries, delay=0.001)))
    class Ending:
        calls = 0

        @on("select", "movement")
        async def movement(self) -> None:
            Ending.calls += 1
            await end()

        @on("select", "news")
        async def news(self) -> None:
            pass

    async with answering(Ending) as gateway:
        found = await asked(gateway, ask())
        assert failed(found) == ("Failed", "The request could not be handled.")
        assert Ending.calls == tries
        # The orchestrator goes on.
        assert failed(await asked(gateway, ask("news"))) is None


async def test_who_waits_is_told_when_a_timeout_around_the_orchestrator_ends_it() -> None:
    @orchestrator("service.shares", options=EndpointOptions(retry=RetryOptions(attempts=1)))
    class Hanging:
        @on("select", "movement")
        async def movement(self) -> None:
            await asyncio.Event().wait()

    async with (
        running(policy=Policy((RULE,), Ttl.HOPS)) as gateway,
        Client(gateway.client.broker, gateway.client.registry, [Hanging], middleware=[handler_timeout(0.01)]),
    ):
        found = await asked(gateway, ask())
        assert failed(found) == ("Failed", "The request could not be handled.")


async def test_a_client_that_closes_tells_nobody_of_failures() -> None:
    """The request is delivered again."""
    begun = asyncio.Event()

    @orchestrator("service.shares", options=EndpointOptions(retry=RetryOptions(attempts=1)))
    class Hanging:
        @on("select", "movement")
        async def movement(self) -> None:
            begun.set()
            await asyncio.Event().wait()

    @orchestrator("service.shares")
    class Answering:
        @on("select", "movement")
        async def movement(self) -> None:
            pass

    async with running(policy=Policy((RULE,), Ttl.HOPS)) as gateway:
        given, request = (gateway.client.broker, gateway.client.registry), ask()
        async with Client(*given, [Hanging], options=ClientOptions(drain_timeout=0.0)):
            await drop(gateway, request)
            await asyncio.wait_for(begun.wait(), 60)
        async with Client(*given, [Answering]):
            async with asyncio.timeout(60):
                while (found := await collect(gateway, request, wait=30.0)) is None:
                    pass
            assert failed(found) is None


@record
class Price:
    share: str
    price: float


@orchestrator("service.prices", options=QUICK)
class Prices:
    """Has prices for shares with a short name."""

    def __init__(self) -> None:
        self.asked: list[Envelope] = []

    @on("select", "price")
    async def price(self, wanted: Wanted, envelope: Envelope) -> Price:
        self.asked.append(envelope)
        if wanted.share == "SLOW":
            await asyncio.Event().wait()
        if len(wanted.share) > 4:
            raise RequestFailed("Unknown share.", status="Not Found")
        return Price(wanted.share, float(len(wanted.share)))


@orchestrator("service.shares", options=QUICK)
class Fan:
    """Asks for several prices at once and joins the answers."""

    @on("select", "movement")
    async def movement(self, envelope: Envelope, call: Call) -> list[Datum]:
        prices = await call.join(*self._asks(envelope, call))
        return [datum(each.share, str(each.price)) for each in prices]

    @on("process", "movement")
    async def what_comes(self, envelope: Envelope, call: Call) -> list[Datum]:
        prices = await call.gather(*self._asks(envelope, call))
        return [
            datum("missing", each.what) if isinstance(each, GatewayError) else datum(each.share, "there")
            for each in prices
        ]

    @on("update", "movement")
    async def too_slow(self, envelope: Envelope, call: Call) -> list[Datum]:
        await call.join(*self._asks(envelope, call), timeout=0.05)
        return []

    def _asks(self, envelope: Envelope, call: Call) -> Sequence[object]:
        return [
            call.ask(
                "service.prices",
                "select",
                "price",
                Wanted(each.field),
                reply=Price,
                timeout=0.2 if each.field == "SLOW" else 60.0,
            )
            for each in envelope.data
        ]


async def test_a_request_fans_out_and_the_answers_are_joined() -> None:
    prices = Prices()
    async with answering(Fan, prices) as gateway:
        first = ask(data=[datum("A", ""), datum("BB", ""), datum("CCC", "")])
        found = await asked(gateway, first)
        assert [(each.field, each.value) for each in found.data] == [
            ("A", "1.0"),
            ("BB", "2.0"),
            ("CCC", "3.0"),
        ]
        assert len(prices.asked) == 3
        for inner in prices.asked:
            client, id, _ = parts(inner.client.request_id)
            assert (client, id) == ("ann-phone", first.client.request_id)
            assert inner.client.client_id == "service.shares"
            assert (inner.originator.client_id, inner.originator.request_id) == (client, id)
        assert len({inner.client.request_id for inner in prices.asked}) == 3


async def test_when_one_of_many_fails_the_whole_fails_or_the_rest_is_used() -> None:
    async with answering(Fan, Prices) as gateway:
        data = [datum("A", ""), datum("LONGER", "")]
        whole = await asked(gateway, ask(data=data))
        assert failed(whole) == ("Not Found", "Unknown share.")
        rest = changed(ask(data=[*data, datum("SLOW", "")]), "destination", method="process")
        found = await asked(gateway, rest)
        assert [each.field for each in found.data] == ["A", "missing", "missing"]
        late = changed(ask(data=[datum("SLOW", "")]), "destination", method="update")
        problem = failed(await asked(gateway, late))
        assert problem is not None
        assert problem.status == "Timeout"


async def test_answers_that_do_not_come_are_not_waited_for() -> None:
    async def never() -> str:
        await asyncio.Event().wait()
        return ""

    async def at_once() -> str:
        return "here"

    async with Client("memory://", "memory://") as client:
        call = Call(ask(), Message("service.shares", b""), client, "service.shares")
        first, second = await call.gather(at_once(), never(), timeout=0.2)
        assert first == "here"
        assert isinstance(second, RequestFailed)
        with pytest.raises(RequestFailed, match="in time"):
            await call.join(at_once(), never(), timeout=0.01)
        assert await call.join(at_once(), at_once()) == ["here", "here"]
        assert await call.gather() == []


@orchestrator("service.shares", options=QUICK)
class First:
    @on("select")
    async def onward(self, call: Call) -> list[Datum]:
        return (await call.ask("service.second", "select")).data


@orchestrator("service.second", options=QUICK)
class Second:
    @on("select")
    async def onward(self, call: Call) -> list[Datum]:
        return (await call.ask("service.third", "select")).data


@orchestrator("service.third", options=QUICK)
class Third:
    @on("select")
    async def end(self, call: Call) -> list[Datum]:
        return [datum("left", str(call.hops))]


@pytest.mark.parametrize(("hops", "enough"), [(1, False), (2, False), (3, True), (4, True)])
async def test_a_request_is_forwarded_as_often_as_its_hops_allow(hops: int, enough: bool) -> None:
    async with answering(First, Second, Third) as gateway:
        found = await asked(gateway, ask(ttl=hops))
        if enough:
            assert found.text("left") == str(hops - 3)
        else:
            assert failed(found) == ("Failed", "The request has been forwarded too often.")


async def test_passes_are_good_for_one_resource_and_are_exchanged_at_each() -> None:
    secret = b"inside" * 8
    passes = Passes(secret)
    seen: list[str] = []

    @orchestrator("service.prices", options=QUICK, passes=passes)
    class Guarded:
        @on("select")
        async def price(self, envelope: Envelope, call: Call) -> list[Datum]:
            seen.append(envelope.client.authorization)
            return [datum("owner", call.owner)]

    @orchestrator("service.shares", options=QUICK, passes=passes)
    class Front:
        @on("select")
        async def movement(self, envelope: Envelope, call: Call) -> Envelope:
            seen.append(envelope.client.authorization)
            answer = await call.ask("service.prices", "select")
            return response(envelope, answer.data, source="service.shares", to="service.collection")

    async with answering(Front, Guarded, inside_secret=secret) as gateway:
        found = await asked(gateway, ask())
        assert found.text("owner") == "ann"
        assert len(set(seen)) == 2
        stolen = nested(ask(), "service.prices", "select", source="x", authorization=seen[0])
        await gateway.client.publish("service.prices", stolen)
        async with asyncio.timeout(60):
            while not sum(
                end for _, end in gateway.client.broker.log().partitions("service.prices.dead").values()
            ):
                await asyncio.sleep(0.01)
        assert len(seen) == 2


async def test_a_request_that_is_delivered_twice_is_handled_once(tmp_path: Path) -> None:
    handled: list[str] = []
    async with Outcomes(f"sqlite://{tmp_path}/outcomes.db") as outcomes:

        @orchestrator("service.shares", options=QUICK, outcomes=outcomes)
        class Once:
            @on("insert")
            async def insert(self, envelope: Envelope) -> list[Datum]:
                handled.append(envelope.client.request_id)
                return [datum("number", str(len(handled)))]

        async with answering(Once) as gateway:
            first = changed(ask(), "destination", method="insert")
            assert (await asked(gateway, first)).text("number") == "1"
            log = gateway.client.broker.log().partitions("service.shares")
            assert sum(end for _, end in log.values()) == 1
            receiver = await gateway.client.broker.subscribe(Subscription(("service.shares",), "copier"))
            [copy] = await receiver.receive(1, 60)
            await receiver.close()
            await gateway.client.broker.publish([copy._replace(partition=None, offset=None)])
            second = changed(ask(), "destination", method="insert")
            assert (await asked(gateway, second)).text("number") == "2"
            async with asyncio.timeout(60):
                while sum(each.in_flight for each in gateway.client._run.consumers):
                    await asyncio.sleep(0.01)
            assert handled == [first.client.request_id, second.client.request_id]


async def away(*_: object, **__: object) -> None:
    raise NotNow("away")


async def test_work_whose_outcome_cannot_be_kept_is_answered_and_not_done_again(tmp_path: Path) -> None:
    handled: list[str] = []
    async with Outcomes(f"sqlite://{tmp_path}/outcomes.db") as outcomes:
        outcomes._store.settle = away

        @orchestrator("service.shares", options=QUICK, outcomes=outcomes)
        class Once:
            @on("select")
            async def select(self, envelope: Envelope) -> None:
                handled.append(envelope.client.request_id)

        async with answering(Once) as gateway:
            assert (await asked(gateway, ask())).text("status") == "OK"
            assert len(handled) == 1


async def test_who_waits_is_told_when_outcomes_cannot_be_recalled(tmp_path: Path) -> None:
    async with Outcomes(f"sqlite://{tmp_path}/outcomes.db") as outcomes:
        outcomes._store.claim = away

        @orchestrator("service.shares", options=QUICK, outcomes=outcomes)
        class Never:
            @on("select")
            async def select(self) -> None:
                raise AssertionError

        async with answering(Never) as gateway:
            assert failed(await asked(gateway, ask())) == ("Failed", "The request could not be handled.")


def test_wrong_orchestrators_are_refused_where_they_are_written() -> None:
    with pytest.raises(ConfigurationError, match="not a method of requests"):
        on("response")
    with pytest.raises(ConfigurationError, match="answers no requests"):
        orchestrator("service.x")(type("Empty", (), {}))

    class Twice:
        @on("select", "a")
        async def one(self) -> None: ...

        @on("select", "a")
        async def other(self) -> None: ...

    with pytest.raises(ConfigurationError, match="take the same"):
        orchestrator("service.x")(Twice)

    class Odd:
        @on("select", "a")
        async def one(self, number: int) -> None: ...

    with pytest.raises(ConfigurationError, match="number"):
        orchestrator("service.x")(Odd)
