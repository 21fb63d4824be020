"""Property files and defaults: found, read, checked, and laid over each other."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from dragoman.core.errors import ConfigurationError
from dragoman.topology import Role, Topic, Topology
from dragoman.topology.configuration import Configuration
from dragoman.topology.files import beside_the_program, parse
from dragoman.topology.settings import Settings
from tests.topology.world import allowed, memory_url, until

PRICES = Topic("prices")


def configuration(folder: Path | None = None) -> Configuration:
    return Configuration([folder] if folder else [], lambda: frozenset({"kafka", "multicast"}))


def settings(
    found: Configuration, admin: str = "kafka", role: Role = Role.PUBLISHER, **given: str
) -> Settings:
    said = found.said(
        PRICES, role, {name.replace("_", "."): text for name, text in given.items()}, None, admin
    )
    return found.resolve(said, role, admin)


def write(folder: Path, name: str, text: str) -> None:
    (folder / name).write_text(text)


def test_the_request_counts_over_files_over_defaults_over_the_library(tmp_path: Path) -> None:
    found = configuration(tmp_path)
    assert settings(found)["serializer"].value == "avro"
    assert settings(found)["serializer"].origin == "library"
    found.set_defaults("kafka", {"pub:serializer": "cbor", "sub:serializer": "json"})
    assert settings(found)["serializer"].value == "cbor"
    assert settings(found)["serializer"].origin == "defaults of kafka"
    write(tmp_path, "prices.pub", "serializer = json\n")
    assert settings(found)["serializer"].value == "json"
    write(tmp_path, "prices.kafkapub", "# for Kafka alone\n\nserializer: avro\n")
    assert settings(found)["serializer"].value == "avro"
    assert settings(found)["serializer"].origin == f"{tmp_path / 'prices.kafkapub'}:3"
    assert settings(found, "multicast")["serializer"].value == "json", "another admin does not read that file"
    assert settings(found, serializer="cbor")["serializer"].value == "cbor"
    assert settings(found, serializer="cbor")["serializer"].origin == "request"


def test_defaults_are_for_one_side_or_for_both() -> None:
    found = configuration()
    found.set_defaults("kafka", {"queue.size": "7", "sub:queue.size": "9"})
    assert settings(found)["queue.size"].value == "7"
    assert settings(found, role=Role.SUBSCRIBER)["queue.size"].value == "9"
    assert settings(found, "multicast")["queue.size"].origin == "library"


def test_publishers_and_subscribers_have_their_own_files(tmp_path: Path) -> None:
    write(tmp_path, "prices.sub", "queue.size=3")
    found = configuration(tmp_path)
    assert settings(found, role=Role.SUBSCRIBER)["queue.size"].value == "3"
    assert settings(found)["queue.size"].origin == "library"


def test_a_file_for_the_scope_counts_over_the_one_for_the_name(tmp_path: Path) -> None:
    write(tmp_path, "prices.pub", "queue.size=1")
    write(tmp_path, "fx.prices.pub", "queue.size=2")
    found = configuration(tmp_path)
    scoped = found.said(Topic("prices", "fx"), Role.PUBLISHER, {})
    assert scoped["queue.size"].value == "2"
    assert found.said(Topic("prices", "other"), Role.PUBLISHER, {})["queue.size"].value == "1"


def test_files_are_found_beside_the_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "pubsub").mkdir()
    write(tmp_path / "pubsub", "prices.pub", "qos=control")
    monkeypatch.setattr(sys, "argv", [str(tmp_path / "program.py")])
    assert beside_the_program()[0] == tmp_path / "pubsub"
    found = Configuration(None, frozenset)
    assert found.said(PRICES, Role.PUBLISHER, {})["qos"].value == "control"


def test_files_are_found_in_the_package_that_asks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "dragoman_test_feed"
    (package / "pubsub").mkdir(parents=True)
    (package / "__init__.py").write_text("")
    write(package / "pubsub", "prices.pub", "qos=sample")
    monkeypatch.syspath_prepend(tmp_path)
    assert configuration().said(PRICES, Role.PUBLISHER, {}, "dragoman_test_feed")["qos"].value == "sample"
    with pytest.raises(ConfigurationError, match="no package"):
        configuration().said(PRICES, Role.PUBLISHER, {}, "dragoman_test_nothing")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("quos=sample", "Did you mean 'qos'"),
        ("qos=best", "choose one of sample, control"),
        ("queue.size=none", "queue.size cannot be"),
        ("rabbits.x=1", "Nobody knows"),
        ("pubsub.topic=other", "contradicts"),
        ("just words", "is not a property"),
    ],
)
def test_a_wrong_file_is_refused_with_its_line(tmp_path: Path, text: str, says: str) -> None:
    write(tmp_path, "prices.pub", f"# comment\n{text}\n")
    with pytest.raises(ConfigurationError, match=says) as refused:
        configuration(tmp_path).said(PRICES, Role.PUBLISHER, {})
    assert "prices.pub" in str(refused.value)
    assert "2" in str(refused.value)


@pytest.mark.parametrize("value", [5, None, True])
def test_a_property_that_is_not_text_is_refused_not_overlooked(value: object) -> None:
    with pytest.raises(ConfigurationError, match="Properties are text"):
        configuration().said(PRICES, Role.PUBLISHER, {"queue.size": value})  # type: ignore[dict-item]


def test_wrong_defaults_are_refused_and_change_nothing() -> None:
    found = configuration()
    found.set_defaults("kafka", {"queue.size": "7"})
    with pytest.raises(ConfigurationError):
        found.set_defaults("kafka", {"queue.size": "8", "qos": "best"})
    assert found.defaults("kafka") == {"queue.size": "7"}


def test_properties_may_be_written_over_several_lines_and_with_colons() -> None:
    lines = list(parse("a : 1\n! no\n b=x=\\\n  y:z\n\nc=\n", "file"))
    assert lines == [("a", "1", "file:1"), ("b", "x=y:z", "file:3"), ("c", "", "file:6")]


async def test_defaults_that_change_replace_the_transport_without_a_break() -> None:
    async with Topology([memory_url()], registry=allowed()) as topology:
        request = topology.request("prices")
        await request.wait(30)
        changes: list[str] = []
        request.on_change(lambda change: changes.append(change.change))
        topology.set_defaults("memory", {"pub:serializer": "json"})
        await until(lambda: changes == ["appeared", "replaced"])
        assert topology.own_endpoints()[0].serializer == "json"
        assert request.available


def test_defaults_of_an_admin_that_cannot_be_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="Did you mean 'kafka'"):
        configuration().set_defaults("kafak", {"serializer": "json"})


@pytest.mark.parametrize("place", ["./pubsub", "no-such-package", Path("/no/such/folder")])
def test_a_place_that_is_not_there_is_refused(place: str | Path) -> None:
    with pytest.raises(ConfigurationError, match="There is no"):
        Configuration([place], frozenset)


def test_a_file_that_is_not_text_is_refused_by_its_name(tmp_path: Path) -> None:
    (tmp_path / "prices.pub").write_bytes(b"qos = \xff")
    with pytest.raises(ConfigurationError, match=r"prices\.pub"):
        settings(configuration(tmp_path))
