"""Entries that are signed: believed from those who are trusted, refused from all others."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from dragoman.core.errors import ConfigurationError, EntryRefused
from dragoman.topology import Endpoint, Role, Signer, Topic, Trust
from dragoman.topology.etcd.vitality import Vitality
from dragoman.topology.signing import new_key

HOST = Signer("host-a", new_key())
OTHER = Signer("host-b", new_key())


def entry(signer: Signer = HOST, epoch: int = 5, service: int = 0) -> tuple[str, dict[str, str]]:
    endpoint = Endpoint(signer.framework, service, Role.PUBLISHER, Topic("prices"), "kafka", "avro")
    return endpoint.key, signer.sign(endpoint.key, endpoint.properties(), epoch)


def trust(*signers: Signer) -> Trust:
    return Trust({each.name: each.public for each in signers or (HOST,)})


def test_a_trusted_signer_is_believed() -> None:
    trust().check(*entry())


def refused(found: Trust, key: str, properties: Mapping[str, str]) -> str:
    with pytest.raises(EntryRefused) as error:
        found.check(key, properties)
    return error.value.code


def test_an_entry_without_a_signature_is_refused() -> None:
    key, properties = entry()
    del properties["pubsub.signature"]
    assert refused(trust(), key, properties) == "topology.entry-signer"


@pytest.mark.parametrize("name", ["pubsub.topic", "pubsub.admin.type", "pubsub.epoch", "added"])
def test_a_changed_entry_is_refused(name: str) -> None:
    key, properties = entry()
    assert refused(trust(), key, {**properties, name: "9"}) == "topology.entry-signature"


def test_an_entry_moved_to_another_key_is_refused() -> None:
    _, properties = entry()
    assert refused(trust(), "/pubsub/publisher/other/x-0", properties) == "topology.entry-signature"


def test_a_signer_whom_nobody_trusts_is_refused() -> None:
    assert refused(trust(), *entry(OTHER)) == "topology.entry-signer"


def test_a_trusted_signer_cannot_speak_for_another_program() -> None:
    endpoint = Endpoint(HOST.framework, 0, Role.PUBLISHER, Topic("prices"), "kafka", "avro")
    forged = OTHER.sign(endpoint.key, endpoint.properties(), 5)
    assert refused(trust(HOST, OTHER), endpoint.key, forged) == "topology.entry-signer"


def test_an_older_state_of_an_entry_is_refused() -> None:
    found = trust()
    found.check(*entry(epoch=7))
    found.check(*entry(epoch=7))
    assert refused(found, *entry(epoch=6)) == "topology.entry-epoch"
    found.check(*entry(epoch=6, service=1))


def test_what_was_taken_away_cannot_be_put_back_by_somebody_else() -> None:
    found = trust()
    key, properties = entry(epoch=7)
    found.check(key, properties)
    found.retire(key, 9)
    assert refused(found, key, properties) == "topology.entry-epoch"
    found.check(*entry(epoch=9))


def test_an_epoch_that_cannot_be_is_refused() -> None:
    assert refused(trust(), *entry(epoch=10**30)) == "topology.entry-epoch"


def test_what_strangers_put_and_take_away_does_not_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dragoman.topology.signing.MOST_REMEMBERED", 3)
    found = trust()
    for number in range(10):
        found.retire(f"/pubsub/publisher/t/stranger-{number}", number)
    assert len(found._epochs) == 3


def test_keys_that_are_none_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError):
        Signer("x", "short")
    with pytest.raises(ConfigurationError):
        Trust({"x": "short"})
    (tmp_path / "trust.json").write_text("[]")
    with pytest.raises(ConfigurationError, match="trusted keys"):
        Trust.read(tmp_path / "trust.json")


def test_a_program_that_says_nothing_new_is_dead_though_its_entries_stay() -> None:
    shown: list[str] = []
    vitality = Vitality(
        10.0, lambda found: shown.extend(each.id for each in found), lambda gone: shown.clear()
    )
    endpoint = Endpoint("f", 0, Role.PUBLISHER, Topic("prices"), "kafka", "avro")
    vitality.add(endpoint)
    assert shown == [], "nobody has vouched for it yet"
    vitality.heard("f", 5)
    assert shown == ["f-0"]
    started = vitality._lives["f"].heard_at
    assert started is not None
    vitality.check(started + 9)
    assert shown == ["f-0"]
    vitality.check(started + 11)
    assert shown == []
    vitality.heard("f", 5)
    assert shown == [], "an old word that is repeated is nothing new"
    vitality.heard("f", 6)
    assert shown == ["f-0"]


def test_silence_means_nothing_while_etcd_is_away() -> None:
    hidden: list[str] = []
    vitality = Vitality(10.0, lambda found: None, lambda gone: hidden.extend(each.id for each in gone))
    vitality.heard("f", 1)
    vitality.add(Endpoint("f", 0, Role.PUBLISHER, Topic("prices"), "kafka", "avro"))
    started = vitality._lives["f"].heard_at
    assert started is not None
    vitality.suspend()
    vitality.check(started + 100)
    vitality.resume(started + 100)
    vitality.check(started + 105)
    assert hidden == []
    vitality.check(started + 111)
    assert hidden == ["f-0"]


def test_a_key_file_that_cannot_be_read_is_refused_by_its_name(tmp_path: Path) -> None:
    (tmp_path / "binary.key").write_bytes(b"\xff\xfe")
    for name in ("nosuch.key", "binary.key"):
        with pytest.raises(ConfigurationError, match=name):
            Signer.read("host-a", tmp_path / name)


@pytest.mark.parametrize("key", [5, None, "short", ["list"]])
def test_a_public_key_that_is_none_is_refused_by_its_owner(key: object) -> None:
    with pytest.raises(ConfigurationError, match="host-a"):
        Trust({"host-a": key})
