"""Twelve things that a gateway of this kind can get wrong, each shown to be right here."""

from __future__ import annotations

import logging
import sqlite3
from pathlib import Path

import jwt
import pytest

from dragoman.core.errors import InvalidEnvelope, NotNow, Refused
from dragoman.core.message import Message
from dragoman.gateway.envelope import Envelope, collection, datum, response, to_json
from dragoman.gateway.policy import Policy, Rule, Ttl
from dragoman.gateway.security.keys import create_key, fits, hashed
from dragoman.gateway.security.seal import Pass, Seal, Stamp
from dragoman.gateway.store.port import StoredKey
from tests.gateway.kit import (
    COLLECTION,
    JWT_SECRET,
    Clock,
    answer,
    ask,
    collect,
    inside,
    options,
    running,
    token,
)
from tests.gateway.test_drop_off import changed, drop


async def test_1_a_captured_request_cannot_be_replayed() -> None:
    clock = Clock()
    async with running(clock) as gateway:
        captured = ask()
        for ahead in (0, 200, 400, 4_000, 400_000):
            clock.ahead = ahead
            await gateway.store.sweep(clock())
            try:
                await drop(gateway, captured)
            except InvalidEnvelope as error:
                assert error.code == "gateway.envelope.stale"
        assert len(await inside(gateway)) == 1


async def test_1_a_captured_repetition_cannot_be_replayed_when_the_first_is_forgotten() -> None:
    """It has a later timestamp, so it is valid for longer."""
    clock = Clock()
    async with running(clock, replay_window=300.0, skew=60.0) as gateway:
        first = ask()
        await drop(gateway, first)
        await gateway.drop_off.close()
        clock.ahead = 250
        repetition = changed(first, "destination", timestamp=clock.timestamp)
        await drop(gateway, repetition)
        clock.ahead = 400
        await gateway.store.sweep(clock())
        await drop(gateway, repetition)
        assert len(await inside(gateway)) == 1


async def test_2_responses_cannot_be_poisoned_from_outside_or_inside() -> None:
    async with running() as gateway:
        asked = ask()
        await drop(gateway, asked)
        [(stamped, _)] = await inside(gateway)
        for method, resource in (
            ("response", COLLECTION),
            ("response", "service.shares"),
            ("select", COLLECTION),
        ):
            with pytest.raises((InvalidEnvelope, Refused)):
                await drop(gateway, changed(ask(), "destination", method=method, resource=resource))
        victim = ask(who="bob")
        forged = [
            changed(stamped, "originator", client_id="bob-phone"),
            changed(stamped, "originator", request_id="another"),
            changed(stamped, "originator", source_endpoint="another"),
            changed(stamped, "originator", original_token=""),
            changed(stamped, "originator", original_token=victim.client.authorization),
            changed(stamped, "originator", original_token=stamped.originator.original_token[:-2] + "xx"),
        ]
        for each in forged:
            with pytest.raises(Refused):
                await answer(gateway, each, [datum("change", "forged")])
        with pytest.raises(Refused):
            await gateway.collection.hold(stamped)
        assert await collect(gateway, asked) is None


async def test_3_tokens_are_not_forwarded_logged_or_stored(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    path = tmp_path / "gateway.db"
    async with running(store=f"sqlite://{path}", audit=str(tmp_path / "audit")) as gateway:
        key = await create_key(gateway.store, "partner")
        credentials = [token(), key, token("cid", aud="elsewhere"), "gk_0123.wrong-secret-of-somebody"]
        for each in credentials:
            asked = ask(token=each)
            try:
                await drop(gateway, asked)
            except Refused:
                continue
            arrived = (await inside(gateway))[-1]
            await answer(gateway, arrived.envelope, [])
        for envelope, message in await inside(gateway):
            for each in credentials:
                assert each.encode() not in (message.payload or b"") + repr(message.headers).encode()
                assert each not in to_json(envelope).decode()
        kept = b"".join(file.read_bytes() for file in tmp_path.iterdir())
    logged = caplog.text + "".join(repr(vars(record)) for record in caplog.records)
    for each in credentials:
        secret = each.rpartition(".")[2]
        assert secret not in logged
        assert secret.encode() not in kept


async def test_3_a_response_carries_no_token_outside() -> None:
    async with running() as gateway:
        asked = ask()
        await drop(gateway, asked)
        [(stamped, _)] = await inside(gateway)
        await answer(gateway, stamped, [])
        found = await collect(gateway, asked)
        assert found is not None
        assert found.client.authorization == found.originator.original_token == ""


async def test_3_what_goes_inside_is_good_for_one_resource_and_not_outside() -> None:
    given = options()
    async with running(inside_secret=given.inside_secret) as gateway:
        await drop(gateway, ask())
        [(stamped, _)] = await inside(gateway)
        shown = Seal(given.inside_secret or b"", purpose="pass").read(stamped.client.authorization, Pass)
        assert (shown.audience, shown.owner) == ("service.shares", "ann")
        with pytest.raises(Refused):
            Seal(given.inside_secret or b"", purpose="pass").read(stamped.originator.original_token, Stamp)
        for inner in (stamped.client.authorization, stamped.originator.original_token):
            with pytest.raises(Refused):
                await drop(gateway, ask(token=inner))


async def test_3_a_token_chooses_neither_its_algorithm_nor_its_key() -> None:
    claims = {"sub": "ann", "aud": "gateway", "exp": 2**33}
    wrong = [
        jwt.encode(claims, "", "none"),
        jwt.encode(claims, JWT_SECRET, "HS512"),
        jwt.encode(claims, "x" * 64, "HS256"),
        jwt.encode(claims, "x" * 64, "HS256", headers={"jwk": {"kty": "oct", "k": "eHh4"}}),
    ]
    async with running() as gateway:
        for each in wrong:
            with pytest.raises(Refused):
                await drop(gateway, ask(token=each))


def test_3_keys_are_hashed_and_compared_in_constant_time() -> None:
    key = StoredKey("gk_1", "partner", hashed("open sesame"))
    assert "sesame" not in repr(key)
    assert fits(key, "open sesame", 0)
    for wrong in ("", "Open sesame", "open sesame ", "o"):
        assert not fits(key, wrong, 0)
    assert not fits(None, "open sesame", 0)


async def test_4_the_client_does_not_choose_a_level_below_the_floor() -> None:
    async with running() as gateway:
        receipt = await drop(gateway, ask("account", security="1"))
        assert receipt.security == "original_token"
        [(stamped, _)] = await inside(gateway)
        await answer(gateway, stamped, [])
        thief = changed(
            collection(ask("account", request_id=receipt.request_id)), "originator", security="basic"
        )
        thief = changed(thief, "client", authorization="")
        assert await gateway.collection.collect(to_json(thief)) is None


async def test_4_ids_with_dashes_do_not_collide() -> None:
    async with running() as gateway:
        one = ask(client_id="a-b", request_id="c")
        other = ask(client_id="a", request_id="b-c")
        await drop(gateway, one)
        [(stamped, _)] = await inside(gateway)
        await answer(gateway, stamped, [])
        assert await collect(gateway, other) is None
        await drop(gateway, other)
        assert len(await inside(gateway)) == 2
        assert await collect(gateway, one) is not None


async def test_5_a_response_is_gone_once_confirmed_and_its_ttl_counts() -> None:
    clock = Clock()
    async with running(clock) as gateway:
        first, second = ask(), ask(ttl=20)
        for each in (first, second):
            await drop(gateway, each)
        for arrived in await inside(gateway):
            await answer(gateway, arrived.envelope, [])
        assert await collect(gateway, first) is not None
        await collect(gateway, first, done=True)
        assert await collect(gateway, first) is None
        clock.ahead = 21
        assert await collect(gateway, second) is None


async def test_6_seconds_and_hops_are_told_apart() -> None:
    rule = Rule(resource="service.shares", retain=100.0, expires=50.0, hops=7)
    for meaning, changed_part in ((Ttl.RETENTION, "retain"), (Ttl.EXPIRY, "expires_in"), (Ttl.HOPS, "hops")):
        policy = Policy((rule,), meaning)
        without, lowered = policy.lifetimes(rule, None), policy.lifetimes(rule, 3)
        differing = [
            name
            for name in ("retain", "expires_in", "hops")
            if getattr(without, name) != getattr(lowered, name)
        ]
        assert differing == [changed_part]


async def test_7_a_repeated_insert_is_done_once_with_the_stored_outcome() -> None:
    async with running() as gateway:
        asked = changed(ask(), "destination", method="insert")
        first = await drop(gateway, asked)
        await gateway.drop_off.close()
        assert [await drop(gateway, asked) for _ in range(3)] == [first] * 3
        assert len(await inside(gateway)) == 1


def nested(levels: int) -> bytes:
    opening = b'{"field":"f","value":[' * levels + b"]}" * levels
    return to_json(ask()).replace(b'"data":[]', b'"data":[' + opening + b"]")


@pytest.mark.parametrize("levels", [33, 2_000, 10_000, 1_000_000])
async def test_8_size_and_depth_are_limited(levels: int) -> None:
    async with running() as gateway:
        for service in (gateway.drop_off.accept, gateway.collection.collect):
            with pytest.raises(InvalidEnvelope) as caught:
                await service(nested(levels))
            assert caught.value.code in ("gateway.envelope.too-deep", "gateway.envelope.too-large")


async def test_9_and_12_what_strangers_send_does_not_pile_up() -> None:
    async with running(most_waiting=3, longest_wait=0.01) as gateway:
        for _ in range(5):
            assert await collect(gateway, ask(), wait=100.0) is None
        assert len(gateway.collection.waiting) == 0
        known = len(gateway.drop_off._credentials._known)
        for number in range(100):
            with pytest.raises(Refused):
                await drop(gateway, ask(token=f"gk_{number}.x"))
        assert len(gateway.drop_off._credentials._known) == known


async def test_10_who_is_inside_without_the_gateways_secret_cannot_stamp() -> None:
    async with running() as gateway:
        asked = ask()
        stamp = Stamp(
            owner="ann",
            client=asked.client.client_id,
            request=asked.client.request_id,
            source="client",
            resource="service.shares",
            entity="movement",
            level="basic",
            token="",
            retain=300.0,
            collect="once",
            lease=30.0,
            hops=1,
            expires=2.0**33,
        )
        own = Seal(b"a secret that is not the gateway's own", purpose="stamp").sign(stamp)
        forged = changed(asked, "originator", original_token=own)
        with pytest.raises(Refused):
            await gateway.collection.hold(response(forged, [], source="x", to=COLLECTION))


async def test_11_data_never_names_a_class_to_be_made() -> None:
    text = to_json(ask(data=[datum("__class__", "os.system"), datum("$type", "subprocess.Popen")]))
    async with running() as gateway:
        await gateway.drop_off.accept(text)
        [(envelope, message)] = await inside(gateway)
        assert type(envelope) is Envelope
        assert isinstance(message, Message)
        assert [each.value for each in envelope.data] == ["os.system", "subprocess.Popen"]


async def test_12_when_the_store_is_away_nothing_is_accepted(tmp_path: Path) -> None:
    path = tmp_path / "gateway.db"
    async with running(store=f"sqlite://{path}?timeout=0.05") as gateway:
        blocker = sqlite3.connect(path, isolation_level=None)
        blocker.execute("BEGIN EXCLUSIVE")
        try:
            with pytest.raises(NotNow) as caught:
                await drop(gateway, ask())
            assert caught.value.code == "gateway.store-away"
        finally:
            blocker.execute("ROLLBACK")
            blocker.close()
        assert await inside(gateway) == []
        await drop(gateway, ask())


async def test_a_secret_can_be_changed_while_requests_are_on_their_way(tmp_path: Path) -> None:
    old, new = b"o" * 32, b"n" * 32
    shared = f"sqlite://{tmp_path}/gateway.db"
    asked = ask()
    async with running(store=shared, secret=old) as gateway:
        await drop(gateway, asked)
        [(stamped, _)] = await inside(gateway)
    async with running(store=shared, secret=new, older_secrets=(old,)) as gateway:
        await answer(gateway, stamped, [])
        assert await collect(gateway, asked) is not None
    async with running(store=shared, secret=new) as gateway:
        with pytest.raises(Refused):
            await answer(gateway, stamped, [])


def test_the_seal_reads_nothing_but_its_own() -> None:
    seal = Seal(b"s" * 32, purpose="pass")
    value = Pass(audience="a", subject="s", owner="o", expires=1.0)
    text = seal.sign(value)
    assert seal.read(text, Pass) == value
    for wrong in ("", ".", "a.b", text[:-1], text + "A", "é" + text, text.partition(".")[0]):
        with pytest.raises(Refused):
            seal.read(wrong, Pass)
    with pytest.raises(Refused):
        Seal(b"s" * 32, purpose="stamp").read(text, Pass)
