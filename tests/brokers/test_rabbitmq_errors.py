"""RabbitMQ's driver is translated whole, and what is written in a URL is checked before anybody connects."""

from __future__ import annotations

import inspect
from pathlib import Path
from types import ModuleType

import aio_pika.exceptions
import aiormq.exceptions
import pamqp.exceptions
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.adapters.rabbitmq import RabbitmqBroker
from dragoman.adapters.rabbitmq.delays import rounded
from dragoman.adapters.rabbitmq.errors import TABLE, translate
from dragoman.adapters.rabbitmq.options import options_of
from dragoman.core.errors import (
    BrokerUnavailable,
    ChannelNotFound,
    ConfigurationError,
    DragomanError,
    GroupTaken,
)


@pytest.mark.parametrize("module", [aio_pika.exceptions, aiormq.exceptions, pamqp.exceptions])
def test_every_error_of_the_driver_is_in_the_table(module: ModuleType) -> None:
    found = {
        cls
        for _, cls in inspect.getmembers(module, inspect.isclass)
        if issubclass(cls, Exception) and cls.__module__.split(".")[0] in ("aio_pika", "aiormq", "pamqp")
    }
    assert found
    assert found - TABLE.keys() == set()


@pytest.mark.parametrize("cls", [cls for cls in TABLE if cls is not aiormq.exceptions.PublishError])
def test_each_becomes_an_error_of_ours_with_advice(cls: type[Exception]) -> None:
    error = translate(cls.__new__(cls))
    assert isinstance(error, DragomanError)
    assert error.next


def test_a_queue_that_is_not_awake_yet_is_unavailable_and_not_missing() -> None:
    asleep = "NOT_FOUND - home node 'a@b' of durable queue 'c' in vhost '/' is down or inaccessible"
    assert isinstance(translate(aiormq.exceptions.ChannelNotFoundEntity(asleep)), BrokerUnavailable)
    gone = "NOT_FOUND - no queue 'c' in vhost '/'"
    assert isinstance(translate(aiormq.exceptions.ChannelNotFoundEntity(gone)), ChannelNotFound)
    assert isinstance(translate(aiormq.exceptions.ChannelLockedResource("taken")), GroupTaken)


@pytest.mark.parametrize(
    "rest",
    [
        "host?colour=blue",
        "host?tls=perhaps",
        "host?heartbeat=0",
        "host?timeout=soon",
        "host?prefetch=-1",
        "host?ca_file=/no/such/file",
        "host?auth=external",
        "host?auth=kerberos",
        "host:port/",
        "",
        "?tls=true",
    ],
)
def test_what_cannot_be_used_in_a_url_is_refused_at_once_and_keeps_the_secret(rest: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        RabbitmqBroker(f"rabbitmq://user:s3cret@{rest}")
    assert "s3cret" not in str(caught.value)
    assert caught.value.next


def test_certificates_without_tls_would_be_ignored_so_they_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "ca.pem"
    file.write_text("")
    with pytest.raises(ConfigurationError, match="tls=true"):
        RabbitmqBroker(f"rabbitmq://host?ca_file={file}")


def test_user_password_and_vhost_may_have_any_characters() -> None:
    options = options_of("rabbitmq://a%40b:p%2Fw%3A@host/%2Fteam%20one")
    assert (options.user, options.password, options.vhost) == ("a@b", "p/w:", "/team one")
    assert (options.amqp.user, options.amqp.password, options.port) == ("a@b", "p/w:", 5672)
    assert options_of("rabbitmq://host/?tls=true").port == 5671
    assert options_of("rabbitmq://host/").vhost == "/"


@given(st.floats(min_value=0.0001, max_value=3_000_000))
def test_a_delay_is_rounded_up_by_a_tenth_at_most(delay: float) -> None:
    milliseconds = rounded(delay)
    assert delay * 1000 <= milliseconds <= max(delay * 1000 * 1.1, delay * 1000 + 1) + 0.001
    assert len(str(milliseconds).rstrip("0")) <= 2


def test_a_delay_the_server_cannot_time_is_refused() -> None:
    with pytest.raises(ConfigurationError):
        rounded(100 * 86_400.0)
