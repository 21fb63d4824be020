"""The collection point: who gets a response, when, how often; and the same answer to all others."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from dragoman.core.errors import InvalidEnvelope, NotNow, Refused
from dragoman.gateway.envelope import Envelope, collection, datum, nested, response, to_json
from dragoman.gateway.gateway import Gateway
from dragoman.gateway.policy import Policy, Rule
from dragoman.gateway.security.keys import create_key
from dragoman.gateway.security.level import AUTHORIZED, Asking, Levels
from dragoman.gateway.store.port import Held
from tests.gateway.kit import COLLECTION, Clock, answer, ask, collect, inside, options, running, token
from tests.gateway.stores import store_url
from tests.gateway.test_drop_off import changed, drop


async def answered(gateway: Gateway, asked: Envelope) -> Envelope:
    """Drop it off, and answer it as an orchestrator does."""
    await drop(gateway, asked)
    stamped = (await inside(gateway))[-1].envelope
    for arrived in await inside(gateway):
        if arrived.envelope.originator.request_id == asked.originator.request_id:
            stamped = arrived.envelope
    await answer(gateway, stamped, [datum("change", "1.5")])
    return stamped


@pytest.mark.parametrize("entity", ["movement", "offer"])
async def test_a_collector_gets_the_same_bytes_again_until_it_has_confirmed_them(entity: str) -> None:
    async with running() as gateway:
        asked = ask(entity)
        assert await collect(gateway, asked) is None
        await answered(gateway, asked)
        found = await collect(gateway, asked)
        assert found is not None
        assert found.text("change") == "1.5"
        assert found.originator.request_id == asked.originator.request_id
        assert await collect(gateway, asked) == found
        assert await collect(gateway, asked, collector="another") is None
        await collect(gateway, asked, done=True, collector="another")
        assert await collect(gateway, asked) == found
        await collect(gateway, asked, done=True)
        for collector in (None, "another", ""):
            assert await collect(gateway, asked, collector=collector) is None


async def test_of_many_who_collect_at_once_one_gets_it() -> None:
    async with running() as gateway:
        asked = ask()
        await answered(gateway, asked)
        found = await asyncio.gather(*(collect(gateway, asked, collector=str(n)) for n in range(20)))
        assert sum(each is not None for each in found) == 1


@pytest.mark.parametrize("id", [None, ""], ids=["with an id", "without an id"])
@pytest.mark.parametrize("entity", ["movement", "news"])
async def test_another_collector_gets_a_leased_response_once_the_lease_is_over(
    entity: str, id: str | None
) -> None:
    clock = Clock()
    async with running(clock) as gateway:
        asked = ask(entity)
        await answered(gateway, asked)
        assert await collect(gateway, asked, collector=id) is not None
        assert await collect(gateway, asked, collector="another") is None
        assert await collect(gateway, asked, collector="") is None
        clock.ahead = 31
        assert await collect(gateway, asked, collector="another") is not None
        await collect(gateway, asked, done=True, collector="another")
        clock.ahead = 62
        assert await collect(gateway, asked) is None


async def test_a_client_that_sends_no_id_confirms_as_it_always_did() -> None:
    async with running() as gateway:
        asked = ask("news")
        await answered(gateway, asked)
        await collect(gateway, asked, done=True, collector="")
        assert await collect(gateway, asked, collector="") is not None, (
            "it was not there when it was confirmed"
        )
        await collect(gateway, asked, done=True, collector="")
        assert await collect(gateway, asked) is None


async def test_once_is_for_one_collector_only_and_is_not_lost_if_that_sends_no_id() -> None:
    clock = Clock()
    async with running(clock) as gateway:
        known, unknown = ask("offer"), ask("offer")
        for each in (known, unknown):
            await answered(gateway, each)
        assert await collect(gateway, known) is not None
        assert await collect(gateway, unknown, collector="") is not None
        assert await collect(gateway, unknown, collector="") is None
        clock.ahead = 290
        assert await collect(gateway, known, collector="another") is None
        assert await collect(gateway, known) is not None
        assert await collect(gateway, unknown, collector="") is not None


async def test_a_confirmation_does_not_end_a_response_that_is_kept() -> None:
    async with running() as gateway:
        asked = ask("chart")
        await answered(gateway, asked)
        assert await collect(gateway, asked) is not None
        await collect(gateway, asked, done=True)
        assert await collect(gateway, asked, collector="another") is not None
        await collect(gateway, asked, done=True, collector="")
        for collector in ("another", ""):
            assert await collect(gateway, asked, collector=collector) is not None


@pytest.mark.parametrize("id", ["x" * 201, "a\nb"])
async def test_a_collection_id_that_cannot_be_one_is_refused(id: str) -> None:
    async with running() as gateway:
        with pytest.raises(InvalidEnvelope) as caught:
            await collect(gateway, ask(), collector=id)
        assert caught.value.code == "gateway.envelope.name"


async def test_the_answer_to_an_inner_request_is_never_held_for_the_client() -> None:
    async with running() as gateway:
        asked = ask()
        await drop(gateway, asked)
        [(stamped, _)] = await inside(gateway)
        inner = nested(stamped, "service.prices", "select", "movement", source="service.shares")
        with pytest.raises(Refused) as caught:
            await answer(gateway, inner, [datum("price", "secret")])
        assert caught.value.code == "gateway.poisoned"
        assert await collect(gateway, asked) is None
        await answer(gateway, stamped, [datum("change", "1.5")])
        found = await collect(gateway, asked)
        assert found is not None
        assert found.text("change") == "1.5"


async def test_who_waits_with_a_key_that_is_revoked_meanwhile_gets_nothing() -> None:
    async with running() as gateway:
        key = await create_key(gateway.store, "partner")
        asked = ask(token=key)
        await drop(gateway, asked)
        waiting = asyncio.create_task(collect(gateway, asked, wait=30.0))
        while not len(gateway.collection.waiting):
            await asyncio.sleep(0.01)
        await gateway.store.revoke_key(key.partition(".")[0])
        [(stamped, _)] = await inside(gateway)
        await answer(gateway, stamped, [])
        assert await asyncio.wait_for(waiting, 60) is None


async def test_a_kept_response_goes_when_its_time_is_over() -> None:
    clock = Clock()
    async with running(clock) as gateway:
        asked = ask("chart", ttl=100)
        await answered(gateway, asked)
        for ahead, there in ((0, True), (99, True), (101, False)):
            clock.ahead = ahead
            assert (await collect(gateway, asked) is not None) == there


LEVELS = [
    ("movement", "1", "the same token", True),
    ("movement", "2", "a newer token", True),
    ("movement", "2", "no token", False),
    ("movement", "2", "another's token", False),
    ("movement", "2", "a wrong token", False),
    ("movement", "3", "a newer token", False),
    ("movement", "3", "the same token", True),
    ("movement", "3", "a newer token, showing the old one", True),
    ("movement", "3", "a newer token, with the old one in the data", True),
    ("account", "1", "a newer token", False),
    ("account", "1", "the same token", True),
    ("account", "1", "another's token, showing the old one", False),
    ("news", "1", "no token", True),
    ("news", "1", "the same token", True),
]


def showing(asked: Envelope, how: str) -> Envelope:
    """The collection that somebody tries."""
    own, newer, others = asked.client.authorization, token("ann", jti="2"), token("bob")
    plain = changed(collection(asked), "originator", original_token="")
    shown = {
        "the same token": changed(collection(asked), "client", authorization=own),
        "a newer token": changed(plain, "client", authorization=newer),
        "no token": changed(plain, "client", authorization=""),
        "another's token": changed(plain, "client", authorization=others),
        "a wrong token": changed(plain, "client", authorization="no.such.token"),
        "a newer token, showing the old one": changed(collection(asked), "client", authorization=newer),
        "a newer token, with the old one in the data": msgspec.structs.replace(
            changed(plain, "client", authorization=newer), data=[datum("originalToken", own)]
        ),
        "another's token, showing the old one": changed(collection(asked), "client", authorization=others),
    }
    return shown[how]


@pytest.mark.parametrize(("entity", "security", "how", "there"), LEVELS)
async def test_each_level_wants_to_be_shown_what_it_says(
    entity: str, security: str, how: str, there: bool
) -> None:
    async with running() as gateway:
        asked = ask(entity, security=security)
        await answered(gateway, asked)
        found = await gateway.collection.collect(to_json(showing(asked, how)))
        assert (found is not None) == there


async def test_basic_needs_the_ids_alone() -> None:
    async with running() as gateway:
        asked = ask("news", token="", security="1")
        await answered(gateway, asked)
        stranger = changed(changed(collection(asked), "client", client_id="x"), "originator", client_id="x")
        assert await gateway.collection.collect(to_json(stranger)) is None
        assert await collect(gateway, asked) is not None


async def test_a_stranger_who_uses_my_ids_does_not_come_between_me_and_my_response() -> None:
    async with running() as gateway:
        mine = ask("news", security="1")
        strangers = changed(
            changed(mine, "client", authorization=""), "originator", original_token="", security="1"
        )
        await drop(gateway, strangers)
        [(forged, _)] = await inside(gateway)
        await answer(gateway, forged, [datum("change", "forged")])
        await drop(gateway, mine)
        for arrived in await inside(gateway):
            await answer(gateway, arrived.envelope, [datum("change", "1.5")])
        found = await collect(gateway, mine)
        assert found is not None
        assert found.text("change") == "1.5"
        higher = changed(mine, "originator", security="2")
        assert await collect(gateway, higher, collector="another") is None


async def test_an_owner_may_set_a_level_of_their_own() -> None:
    class SameNetwork:
        name = "same network"
        rank = 25

        def admits(self, asking: Asking, held: Held) -> bool:
            return AUTHORIZED.admits(asking, held) and asking.peer.startswith("10.")

    rule = Rule(resource="service.shares", level="same network")
    async with running(policy=Policy((rule,)), levels=Levels(SameNetwork())) as gateway:
        asked = ask()
        receipt = await drop(gateway, asked)
        assert receipt.security == "same network"
        [(stamped, _)] = await inside(gateway)
        await answer(gateway, stamped, [])
        ask_again = to_json(collection(asked))
        assert await gateway.collection.collect(ask_again, peer="192.0.2.1") is None
        assert await gateway.collection.collect(ask_again, peer="10.0.0.1") is not None


async def test_who_waits_is_given_the_response_when_it_comes() -> None:
    async with running() as gateway:
        asked = ask()
        await drop(gateway, asked)
        waiting = asyncio.create_task(collect(gateway, asked, wait=30.0))
        while not len(gateway.collection.waiting):
            await asyncio.sleep(0.01)
        [(stamped, _)] = await inside(gateway)
        await answer(gateway, stamped, [datum("change", "2")])
        found = await asyncio.wait_for(waiting, 60)
        assert found is not None
        assert found.text("change") == "2"
        assert len(gateway.collection.waiting) == 0


async def test_who_waits_at_one_gateway_is_given_what_comes_to_another(tmp_path) -> None:
    shared = options(store=f"sqlite://{tmp_path}/gateway.db")
    async with Gateway(shared) as one, Gateway(shared) as other:
        asked = ask()
        await drop(one, asked)
        waiting = asyncio.create_task(collect(one, asked, wait=30.0))
        while not len(one.collection.waiting):
            await asyncio.sleep(0.01)
        [(stamped, _)] = await inside(one)
        await answer(other, stamped, [])
        assert await asyncio.wait_for(waiting, 60) is not None


@pytest.mark.parametrize("kind", ["sqlite", "postgres", "redis"])
async def test_it_does_not_matter_which_gateway_a_client_meets(
    kind: str, request: pytest.FixtureRequest, tmp_path
) -> None:
    shared = options(store=store_url(kind, request, tmp_path))
    async with Gateway(shared) as one, Gateway(shared) as other:
        asked = ask()
        receipt = await drop(one, asked)
        await one.drop_off.close()
        assert await drop(other, asked) == receipt
        [(stamped, _)] = await inside(one)
        await one.client.publish(
            COLLECTION, response(stamped, [datum("change", "4")], source="service.shares", to=COLLECTION)
        )
        found = await collect(other, asked, wait=30.0)
        assert found is not None
        assert found.text("change") == "4"
        assert await collect(one, asked, collector="another") is None
        assert await collect(one, asked) == found
        await collect(one, asked, done=True)
        assert await collect(other, asked) is None


async def test_waiting_ends_and_does_not_pile_up() -> None:
    async with running(longest_wait=0.05, most_waiting=1) as gateway:
        asked = ask()
        found = await asyncio.gather(*(collect(gateway, asked, wait=1000.0) for _ in range(3)))
        assert found == [None, None, None]


async def test_who_waits_is_let_go_when_the_gateway_stops() -> None:
    async with running(longest_wait=600.0) as gateway:
        waiting = asyncio.create_task(collect(gateway, ask(), wait=600.0))
        while not len(gateway.collection.waiting):
            await asyncio.sleep(0.01)
    assert await asyncio.wait_for(waiting, 60) is None


async def test_a_response_on_the_channel_is_stored_by_the_delivery_loop() -> None:
    async with running() as gateway:
        asked = ask()
        await drop(gateway, asked)
        [(stamped, _)] = await inside(gateway)
        reply = response(stamped, [datum("change", "3")], source="service.shares", to=COLLECTION)
        await gateway.client.publish(COLLECTION, reply)
        found = await collect(gateway, asked, wait=30.0)
        assert found is not None
        assert found.text("change") == "3"


async def test_while_the_store_is_away_responses_wait_in_the_broker() -> None:
    async with running() as gateway:
        asked = ask()
        await drop(gateway, asked)
        [(stamped, _)] = await inside(gateway)
        hold, tries = gateway.store.hold, 0

        async def away(*arguments: object) -> bool:
            nonlocal tries
            tries += 1
            if tries < 4:
                error = NotNow("away")
                error.retry_after = 0.01
                raise error
            return await hold(*arguments)

        gateway.store.hold = away
        reply = response(stamped, [], source="service.shares", to=COLLECTION)
        await gateway.client.publish(COLLECTION, reply)
        assert await collect(gateway, asked, wait=30.0) is not None
        assert tries == 4


async def test_what_answers_no_request_of_ours_becomes_a_dead_letter(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with running() as gateway:
        asked = ask()
        await drop(gateway, asked)
        [(stamped, _)] = await inside(gateway)
        forged = changed(stamped, "originator", original_token="made.up")
        await gateway.client.publish(COLLECTION, response(forged, [], source="x", to=COLLECTION))
        async with asyncio.timeout(60):
            while not any(
                end for _, end in gateway.client.broker.log().partitions(f"{COLLECTION}.dead").values()
            ):
                await asyncio.sleep(0.01)
        assert await collect(gateway, asked) is None
    [record] = [each for each in caplog.records if each.message == "A message is now a dead letter."]
    assert record.exc_info is None
    assert vars(record)["error_code"] == "gateway.signature"


async def test_the_first_response_counts() -> None:
    async with running() as gateway:
        asked = ask()
        stamped = await answered(gateway, asked)
        assert not await answer(gateway, stamped, [datum("change", "forged")])
        found = await collect(gateway, asked)
        assert found is not None
        assert found.text("change") == "1.5"


@pytest.mark.parametrize(
    ("code", "change"),
    [
        ("method", {"method": "insert"}),
        ("method", {"method": "response"}),
        ("destination", {"resource": "service.shares"}),
        ("name", {"entity": "\t"}),
    ],
)
async def test_what_is_no_collection_is_told(code: str, change: dict[str, str]) -> None:
    async with running() as gateway:
        envelope = changed(collection(ask()), "destination", **change)
        with pytest.raises(InvalidEnvelope) as caught:
            await gateway.collection.collect(to_json(envelope))
        assert caught.value.code == f"gateway.envelope.{code}"


async def test_keys_collect_too_and_only_their_owners() -> None:
    async with running() as gateway:
        mine = await create_key(gateway.store, "partner")
        rotated = await create_key(gateway.store, "partner")
        others = await create_key(gateway.store, "other")
        asked = ask(token=mine)
        await answered(gateway, asked)
        assert await collect(gateway, changed(asked, "originator", original_token=""), token=others) is None
        found = await collect(gateway, changed(asked, "originator", original_token=""), token=rotated)
        assert found is not None


async def test_the_audit_tells_who_did_what_without_data_or_tokens(tmp_path) -> None:
    path = tmp_path / "audit.jsonl"
    async with running(audit=str(path)) as gateway:
        asked = ask(request_id="77", data=[datum("share", "a secret share")])
        await answered(gateway, asked)
        await collect(gateway, asked)
        with pytest.raises(Refused):
            await drop(gateway, ask("salary"))
    text = path.read_text()
    events = [line["event"] for line in map(msgspec.json.decode, text.splitlines())]
    assert events == ["accepted", "held", "collected", "refused"]
    assert "ann-phone" in text and '"77"' in text
    assert "secret share" not in text
    assert asked.client.authorization not in text


async def test_what_the_audit_cannot_take_is_done_and_told_in_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with running(audit="/dev/full") as gateway:
        asked = ask()
        await answered(gateway, asked)
        assert await collect(gateway, asked) is not None
        assert gateway.audit.counts["not in the audit", ""] == 3
    assert "collected, which the audit cannot take: No space left on device." in caplog.text
