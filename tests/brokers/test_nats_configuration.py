"""NATS: what a URL may say, and what the driver's errors become."""

from __future__ import annotations

import inspect
import pickle
import ssl
from pathlib import Path

import pytest
from nats import errors as theirs
from nats.js import errors as streams

from dragoman.adapters.nats import NatsBroker
from dragoman.adapters.nats.errors import TABLE, Refused, translated
from dragoman.adapters.nats.names import Names, name_of, token
from dragoman.adapters.nats.options import options_of
from dragoman.adapters.nats.wire import TIMESTAMP, message_id, message_of
from dragoman.core.broker import Subscription
from dragoman.core.channel import Channel
from dragoman.core.errors import (
    AccessRefused,
    BrokerUnavailable,
    ConfigurationError,
    DragomanError,
    EncodeError,
    Unsupported,
)

SECRET = "s3cret-word"


def test_no_error_of_the_driver_is_missed() -> None:
    for module in (theirs, streams):
        for _, cls in inspect.getmembers(module, inspect.isclass):
            if issubclass(cls, Exception) and cls.__module__ == module.__name__:
                assert cls in TABLE, cls


@pytest.mark.parametrize(
    ("error", "kind", "word"),
    [
        (theirs.AuthorizationError(), AccessRefused, "refused"),
        (theirs.Error('nats: permissions violation for publish to "x"'), AccessRefused, "user"),
        (theirs.NoServersError(), BrokerUnavailable, "reached"),
        (theirs.TimeoutError(), BrokerUnavailable, "in time"),
        (theirs.MaxPayloadError(), EncodeError, "larger"),
        (theirs.NoRespondersError(), BrokerUnavailable, "JetStream"),
        (ssl.SSLError("bad certificate"), BrokerUnavailable, "encrypted"),
        (ConnectionRefusedError(), BrokerUnavailable, "reached"),
        (Refused({"code": 503, "err_code": 10076}), Unsupported, "not enabled"),
        (Refused({"code": 503, "err_code": 10047}), BrokerUnavailable, "room"),
    ],
)
def test_errors_become_ours_and_say_what_to_do(
    error: Exception, kind: type[DragomanError], word: str
) -> None:
    found = translated(error)
    assert type(found) is kind
    assert word in found.what and found.next


@pytest.mark.parametrize(
    ("url", "word"),
    [
        ("nats://h?no_such=1", "Known options: ca, certificate, credentials"),
        ("nats://h?lease=never", "could not convert"),
        ("nats://h?credentials=/not/there", "no such file"),
        ("nats://h?ca=/etc/hostname", "without TLS"),
        ("nats://h?prefix=a.b", "letters"),
        ("nats://h?replicas=0", "above zero"),
        ("nats://h:port", "host and a port"),
        (f"nats://{SECRET}@h", "token=..."),
        (f"nats://me:{SECRET}@h?token={SECRET}", "one way only"),
    ],
)
def test_a_wrong_option_is_refused_with_what_is_allowed(url: str, word: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        NatsBroker(url)
    assert word in str(caught.value)
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize("option", ["nkey", "credentials"])
@pytest.mark.parametrize("content", ["", SECRET, "-----BEGIN NATS USER JWT-----\n"])
def test_a_file_without_a_key_is_refused_at_once(tmp_path: Path, option: str, content: str) -> None:
    file = tmp_path / "key"
    file.write_text(content)
    with pytest.raises(ConfigurationError, match="the file holds no") as caught:
        NatsBroker(f"nats://h?{option}={file}")
    assert SECRET not in str(caught.value)


def test_options_are_read_and_secrets_are_not_shown() -> None:
    url = f"nats://me:{SECRET}@one:4000,two?lease=5"
    options = options_of(url)
    assert options.servers == ("nats://one:4000", "nats://two:4222")
    assert (options.username, options.password, options.lease) == ("me", SECRET, 5.0)
    for shown in (repr(options), repr(NatsBroker(url)), repr(options_of(f"nats://h?token={SECRET}"))):
        assert SECRET not in shown
    assert pickle.loads(pickle.dumps(NatsBroker(url).log())) is not None


async def test_nobody_there_is_told_without_the_password() -> None:
    broker = NatsBroker(f"nats://me:{SECRET}@127.0.0.1:1?timeout=5")
    with pytest.raises(BrokerUnavailable) as caught:
        await broker.connect()
    assert "127.0.0.1:1" in str(caught.value) and SECRET not in str(caught.value)
    with pytest.raises(BrokerUnavailable):
        await broker.create(Channel("c"))
    with pytest.raises(BrokerUnavailable):
        await broker.subscribe(Subscription(("c",), "g"))


@pytest.mark.parametrize("name", ["plain", "with.dots.and-more", "späße", "=2E", "x" * 200, "{$}"])
def test_any_name_makes_a_stream_and_a_subject(name: str) -> None:
    names = Names("dragoman")
    assert name_of(token(name)) == name
    assert not set(token(name)) & set(".*> \t")
    assert len(names.stream(name, 1000)) < 255


def test_names_that_are_too_long_for_a_folder_stay_apart() -> None:
    names = Names("dragoman")
    assert names.stream("ä" * 100, 0) != names.stream("ä" * 101, 0)
    assert names.mover("ä" * 100) != names.mover("ä" * 101)


def test_a_timestamp_that_cannot_be_one_is_the_servers() -> None:
    for text in ("soon", "9" * 20, "9" * 5000):
        assert message_of("c", 0, 1, 7, b"x", {TIMESTAMP: text}).timestamp == 7
    assert message_of("c", 0, 1, 7, b"x", {TIMESTAMP: "-5"}).timestamp == -5


def test_what_is_sent_again_on_purpose_is_no_repetition() -> None:
    assert message_id((("message-id", b"1"), ("other", b"x"))) is not None
    assert message_id((("other", b"x"),)) is None
    assert message_id((("message-id", b"1"), ("dragoman-replays", b"1"))) is None
