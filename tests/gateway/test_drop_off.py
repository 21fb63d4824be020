"""The drop-off point: what it forwards, what it refuses, and what it never does twice."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

from dragoman.client.headers import EXPIRES_AT
from dragoman.core.errors import BrokerUnavailable, ConfigurationError, InvalidEnvelope, NotNow, Refused
from dragoman.gateway.drop_off import Receipt
from dragoman.gateway.envelope import Envelope, datum, request, to_json
from dragoman.gateway.gateway import Gateway
from dragoman.gateway.headers import HOPS, MESSAGE_ID
from dragoman.gateway.policy import Policy, Rule, Ttl
from dragoman.gateway.rates import Rate
from dragoman.gateway.security.keys import create_key
from tests.gateway.kit import RULES, Clock, answer, ask, collect, inside, options, running, token
from tests.gateway.stores import opened, store_url


async def drop(gateway: Gateway, envelope: Envelope, peer: str = "") -> Receipt:
    return await gateway.drop_off.accept(to_json(envelope), peer=peer)


def changed(envelope: Envelope, section: str, **fields: object) -> Envelope:
    return msgspec.structs.replace(
        envelope, **{section: msgspec.structs.replace(getattr(envelope, section), **fields)}
    )


async def test_a_request_reaches_the_orchestrators_channel_under_its_contract() -> None:
    async with running() as gateway:
        asked = ask(data=[datum("share", "ACME")])
        receipt = await drop(gateway, asked)
        assert (receipt.client_id, receipt.entity) == ("ann-phone", "movement")
        assert receipt.request_id == asked.client.request_id
        assert receipt.collection_point == "service.collection"
        [(envelope, message)] = await inside(gateway)
        assert envelope.destination == asked.destination
        assert envelope.data == asked.data
        assert envelope.originator.client_id == "ann-phone"
        assert message.key == b"ann-phone"
        contracts = await gateway.client.registry.contracts()
        assert {"service.shares-value", "service.auth-value", "service.collection-value"} <= set(contracts)


async def test_a_repetition_gets_the_stored_answer_and_is_not_forwarded_again() -> None:
    async with running() as gateway:
        asked = ask()
        first = await drop(gateway, asked)
        assert await drop(gateway, asked) == first
        await gateway.drop_off.close()
        later = changed(asked, "client", authorization=token("ann", jti="newer"))
        later = changed(later, "originator", original_token="")
        assert await drop(gateway, later) == first
        assert len(await inside(gateway)) == 1


async def test_many_copies_at_once_are_forwarded_once() -> None:
    async with running() as gateway:
        asked = ask()
        results = await asyncio.gather(*(drop(gateway, asked) for _ in range(20)), return_exceptions=True)
        assert all(isinstance(each, Receipt | NotNow) for each in results)
        assert any(isinstance(each, Receipt) for each in results)
        assert len(await inside(gateway)) == 1


@pytest.mark.parametrize(
    "other",
    [
        {"resource": "service.other"},
        {"method": "insert"},
        {"version": "v2"},
        {"data": [datum("share", "OTHER")]},
        {"ttl": 7},
        {"security": "3"},
    ],
    ids=lambda other: next(iter(other)),
)
async def test_the_same_id_for_something_else_is_a_contradiction(other: dict[str, Any]) -> None:
    """Its response would wait at the same place."""
    rules = (*RULES, Rule(resource="service.other", entity="movement"))
    async with running(policy=Policy(rules)) as gateway:
        first = {"request_id": "1", "data": [datum("share", "ACME")]}
        await drop(gateway, ask(**first))
        await gateway.drop_off.close()
        asked = ask(**{**first, **{k: v for k, v in other.items() if k not in ("resource", "method")}})
        named = {k: v for k, v in other.items() if k in ("resource", "method")}
        with pytest.raises(InvalidEnvelope) as caught:
            await drop(gateway, changed(asked, "destination", **named))
        assert caught.value.code == "gateway.envelope.conflict"
        await drop(gateway, ask("chart", request_id="1"))
        await drop(gateway, ask(request_id="1", who="bob"))
        assert len(await inside(gateway)) == 3


@pytest.mark.parametrize(
    ("what", "envelope"),
    [
        ("an unknown resource", lambda: request("service.dbread", "select", client_id="a", token=token())),
        (
            "the collection point",
            lambda: request("service.collection", "select", client_id="a", token=token()),
        ),
        ("an entity without a rule", lambda: ask("salary")),
        ("no entity", lambda: ask(None)),
        ("no token", lambda: ask(token="")),
        ("a token that is none", lambda: ask(token="x.y.z")),
        ("a key that is none", lambda: ask(token="gk_1.2")),
        ("an expired token", lambda: ask(token=token(exp=1))),
        ("a token for others", lambda: ask(token=token(aud="other"))),
        ("a token without an end", lambda: ask(token=token(exp=None))),
        ("a token without a subject", lambda: ask(token=token(sub=None))),
        ("a token for another client", lambda: ask(token=token(client_id="bobs-phone"))),
        ("another original token", lambda: changed(ask(), "originator", original_token="other")),
        ("an unknown level", lambda: ask(security="7")),
        ("the forbidden level", lambda: ask(security="forbidden")),
        ("basic below the floor, without a token", lambda: ask(token="", security="1")),
        ("a raised level without a token", lambda: ask("news", token="", security="2")),
    ],
)
async def test_all_refusals_are_one_and_the_same(what: str, envelope) -> None:
    async with running() as gateway:
        with pytest.raises(Refused) as caught:
            await drop(gateway, envelope())
        assert str(caught.value) == (
            "The request is refused. Check destination and credentials; the gateway does not tell strangers"
            " which it was."
        )
        assert await inside(gateway) == []


@pytest.mark.parametrize(
    ("code", "envelope"),
    [
        ("response", lambda: changed(ask(), "destination", method="response")),
        ("method", lambda: changed(ask(), "destination", method="get")),
        ("originator", lambda: changed(ask(), "originator", client_id="bob-phone")),
        ("originator", lambda: changed(ask(), "originator", request_id="2")),
        ("name", lambda: ask(client_id="a\nb")),
        ("name", lambda: ask(request_id="x" * 201)),
        ("name", lambda: changed(ask(), "client", client_id="")),
        ("name", lambda: changed(ask(), "destination", resource="a\0b")),
        ("ttl", lambda: ask(ttl=0)),
        ("timestamp", lambda: changed(ask(), "destination", timestamp="yesterday")),
    ],
)
async def test_what_is_wrong_with_an_envelope_is_told(code: str, envelope) -> None:
    async with running() as gateway:
        with pytest.raises(InvalidEnvelope) as caught:
            await drop(gateway, envelope())
        assert caught.value.code == f"gateway.envelope.{code}"
        assert await inside(gateway) == []


async def test_an_id_is_taken_for_as_long_as_its_response_may_wait() -> None:
    clock = Clock()
    rule = Rule(resource="service.shares", expires=10.0, retain=1000.0)
    async with running(clock, policy=Policy((rule,))) as gateway:
        await drop(gateway, ask(request_id="1", token=token(exp=clock() + 9999)))
        clock.ahead = 900
        await gateway.store.sweep(clock())
        later = ask(request_id="1", data=[datum("share", "X")], token=token(exp=clock() + 9999))
        with pytest.raises(InvalidEnvelope) as caught:
            await drop(gateway, changed(later, "destination", timestamp=clock.timestamp))
        assert caught.value.code == "gateway.envelope.conflict"


@pytest.mark.parametrize("outcome", ["noted", "failed", "cancelled"])
async def test_only_an_outcome_that_could_not_be_noted_is_told_in_the_log(
    outcome: str, caplog: pytest.LogCaptureFixture
) -> None:
    errors = list[dict[str, Any]]()
    asyncio.get_running_loop().set_exception_handler(lambda _, context: errors.append(context))
    async with running() as gateway:
        noting: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        gateway.store.settle = lambda key, outcome: noting
        asked = ask()
        receipt = await drop(gateway, asked)
        assert await drop(gateway, asked) == receipt
        if outcome == "noted":
            noting.set_result(None)
        elif outcome == "failed":
            noting.set_exception(NotNow("away"))
        else:
            noting.cancel()
        await gateway.drop_off.close()
        await asyncio.sleep(0)
        with pytest.raises(NotNow) as caught:
            await drop(gateway, asked)
        assert caught.value.code == "gateway.in-progress"
    assert ("could not be noted" in caplog.text) == (outcome == "failed")
    assert errors == []


async def test_old_requests_cannot_be_sent_again() -> None:
    clock = Clock()
    async with running(clock, replay_window=300.0, skew=60.0) as gateway:
        asked = ask(token=token(exp=datetime.now(UTC) + timedelta(days=1)))
        asked = changed(asked, "destination", timestamp=clock.timestamp)
        await drop(gateway, asked)
        for ahead in (299, 301, 361, 10_000):
            clock.ahead = ahead
            await gateway.store.sweep(clock())
            if ahead < 300:
                await drop(gateway, asked)
            else:
                with pytest.raises(InvalidEnvelope) as caught:
                    await drop(gateway, asked)
                assert caught.value.code == "gateway.envelope.stale"
        assert len(await inside(gateway)) == 1


async def test_requests_from_the_future_are_refused() -> None:
    async with running(skew=60.0) as gateway:
        for seconds, fine in ((30, True), (3600, False)):
            moment = (datetime.now(UTC) + timedelta(seconds=seconds)).isoformat()
            asked = changed(ask(), "destination", timestamp=moment)
            if fine:
                await drop(gateway, asked)
            else:
                with pytest.raises(InvalidEnvelope):
                    await drop(gateway, asked)


async def test_without_a_timestamp_a_token_that_ends_soon_is_needed() -> None:
    clock = Clock()
    async with running(clock) as gateway:
        timeless = changed(ask(), "destination", timestamp=None)
        await drop(gateway, timeless)
        clock.ahead = 590
        await gateway.store.sweep(clock())
        await drop(gateway, timeless)
        assert len(await inside(gateway)) == 1
        long = ask(token=token(exp=datetime.now(UTC) + timedelta(days=30)))
        with pytest.raises(InvalidEnvelope, match="timestamp"):
            await drop(gateway, changed(long, "destination", timestamp=None))


async def test_a_ticket_left_by_a_dead_gateway_is_taken_over() -> None:
    clock = Clock()
    async with running(clock) as gateway:
        asked = ask()

        async def dies(*_: object) -> None:
            raise asyncio.CancelledError

        forward, gateway.drop_off._forward = gateway.drop_off._forward, dies
        with pytest.raises(asyncio.CancelledError):
            await drop(gateway, asked)
        gateway.drop_off._forward = forward
        with pytest.raises(NotNow):
            await drop(gateway, asked)
        clock.ahead = 31
        await drop(gateway, asked)
        assert len(await inside(gateway)) == 1


async def test_while_the_broker_is_down_nothing_is_accepted_and_nothing_lost() -> None:
    async with running() as gateway:
        broker = gateway.client.broker
        publish, asked = broker.publish, ask()

        async def fails(*_: object) -> None:
            raise BrokerUnavailable("down")

        broker.publish = fails
        with pytest.raises(NotNow) as caught:
            await drop(gateway, asked)
        assert caught.value.code == "gateway.broker-away"
        assert caught.value.retry_after > 0
        broker.publish = publish
        await drop(gateway, asked)
        assert len(await inside(gateway)) == 1


async def test_a_broker_that_never_answers_is_given_up() -> None:
    async with running(forward_timeout=0.05) as gateway:

        async def hangs(*_: object) -> None:
            await asyncio.Event().wait()

        gateway.client.broker.publish = hangs
        with pytest.raises(NotNow):
            await drop(gateway, ask())


@pytest.mark.parametrize(
    ("first", "second", "shared"),
    [
        ("2001:db8::1", "2001:db8::ffff:2", True),
        ("2001:db8::1", "2001:db8:0:1::1", False),
        ("::ffff:192.0.2.1", "192.0.2.1", True),
        ("192.0.2.1", "192.0.2.2", False),
    ],
)
async def test_all_addresses_of_one_customer_share_a_rate(first: str, second: str, shared: bool) -> None:
    async with running(Clock(), peer_rate=Rate(0.01, 1)) as gateway:
        for service in (gateway.drop_off.accept, gateway.collection.collect):
            with pytest.raises(InvalidEnvelope):
                await service(b"{", peer=first)
            with pytest.raises(NotNow if shared else InvalidEnvelope):
                await service(b"{", peer=second)


async def test_rates_are_limited_by_owner_and_by_address() -> None:
    clock = Clock()
    async with running(clock, owner_rate=Rate(0.01, 2), peer_rate=Rate(0.01, 3)) as gateway:
        await drop(gateway, ask(), "1")
        await drop(gateway, ask(), "2")
        with pytest.raises(NotNow) as caught:
            await drop(gateway, ask(), "3")
        assert caught.value.code == "gateway.too-many-requests"
        assert 0 < caught.value.retry_after <= 100
        await drop(gateway, ask(who="bob"), "1")
        await drop(gateway, ask(who="cid"), "1")
        with pytest.raises(NotNow):
            await drop(gateway, ask(who="dan"), "1")
        clock.ahead = 101
        await drop(gateway, ask(), "1")


async def test_who_does_not_collect_is_not_served() -> None:
    clock = Clock()
    async with running(clock, waiting_quota=2) as gateway:
        asked = [ask(), ask()]
        for each in asked:
            await drop(gateway, each)
        for arrived in await inside(gateway):
            await answer(gateway, arrived.envelope, [])
        clock.ahead = 2
        with pytest.raises(NotNow) as caught:
            await drop(gateway, ask())
        assert caught.value.code == "gateway.quota"
        await drop(gateway, ask(who="bob"))
        assert await collect(gateway, asked[0]) is not None
        clock.ahead = 4
        await drop(gateway, ask())


@pytest.mark.parametrize(
    ("ttl", "given", "hops", "expires", "retain"),
    [
        (Ttl.RETENTION, None, 9, 200.0, 100.0),
        (Ttl.RETENTION, 50, 9, 200.0, 50.0),
        (Ttl.RETENTION, 5_000, 9, 200.0, 100.0),
        (Ttl.EXPIRY, 50, 9, 50.0, 100.0),
        (Ttl.HOPS, 3, 3, 200.0, 100.0),
        (Ttl.HOPS, 5_000, 9, 200.0, 100.0),
    ],
)
async def test_the_message_ttl_means_what_the_deployment_says(
    ttl: Ttl, given: int | None, hops: int, expires: float, retain: float
) -> None:
    rule = Rule(resource="service.shares", hops=9, expires=200.0, retain=100.0)
    async with running(policy=Policy((rule,), ttl)) as gateway:
        before = datetime.now(UTC).timestamp()
        receipt = await drop(gateway, ask(ttl=given))
        after = datetime.now(UTC).timestamp()
        [(_, message)] = await inside(gateway)
        assert message.header(HOPS) == str(hops - 1).encode()
        assert receipt.retain_seconds == retain
        assert before + expires <= receipt.expires_at <= after + expires
        assert int(message.header(EXPIRES_AT) or 0) == int(receipt.expires_at * 1000)
        assert message.header(MESSAGE_ID)


async def test_rules_may_name_methods_and_versions() -> None:
    rule = Rule(resource="service.shares", methods=frozenset({"select"}), versions=frozenset({"v1", "v1-2"}))
    async with running(policy=Policy((rule,))) as gateway:
        await drop(gateway, ask(version="v1-2"))
        with pytest.raises(Refused):
            await drop(gateway, ask(version="v3"))
        with pytest.raises(Refused):
            await drop(gateway, changed(ask(), "destination", method="delete"))


async def test_back_ends_use_keys() -> None:
    async with running() as gateway:
        key = await create_key(gateway.store, "partner")
        narrow = await create_key(gateway.store, "partner", resources=["service.auth"])
        over = await create_key(gateway.store, "partner", seconds=1e-6)
        await drop(gateway, ask(token=key))
        await drop(gateway, ask(token=f"Bearer {key}"))
        with pytest.raises(ConfigurationError, match="lives"):
            await create_key(gateway.store, "partner", seconds=0)
        for wrong in (narrow, over, key[:-1], key + "x", key.partition(".")[0]):
            with pytest.raises(Refused):
                await drop(gateway, ask(token=wrong))


@pytest.mark.parametrize("kind", ["sqlite", "postgres", "redis"])
async def test_a_revoked_key_is_refused_at_once_by_all_gateways_on_the_store(
    kind: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    shared = options(store=store_url(kind, request, tmp_path))
    async with Gateway(shared) as one, Gateway(shared) as other, opened(shared.store) as tool:
        key = await create_key(tool, "partner")
        for gateway in (one, other):
            await drop(gateway, ask(token=key))
        assert await tool.revoke_key(key.partition(".")[0])
        for gateway in (one, other):
            with pytest.raises(Refused):
                await drop(gateway, ask(token=key))
            with pytest.raises(Refused):
                await drop(gateway, ask(token=f"Bearer {key}"))


async def test_wrong_settings_are_refused_at_once() -> None:
    with pytest.raises(ConfigurationError, match="collection point"):
        options(policy=Policy((Rule(resource="service.collection"),)))
    with pytest.raises(ConfigurationError, match="two rules"):
        Policy((*RULES, RULES[0]))
    with pytest.raises(ConfigurationError, match="level"):
        options(policy=Policy((Rule(resource="service.x", level="high"),)))
    with pytest.raises(ConfigurationError, match="secret"):
        Gateway(options(secret=b"short"))
    with pytest.raises(ConfigurationError, match="two"):
        options(secret=b"x" * 32, inside_secret=b"x" * 32)
    with pytest.raises(ConfigurationError, match="requests"):
        Rule(resource="service.x", methods=frozenset({"response"}))
    with pytest.raises(ConfigurationError, match="audit"):
        Gateway(options(audit="/nowhere/at/all"))
