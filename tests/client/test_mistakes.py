"""What people get wrong is told in words, with what to do about it, before anything is lost."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Annotated, Any

import pytest

from dragoman import (
    CircuitBreaker,
    Client,
    ClientOptions,
    Deduplicate,
    EndpointOptions,
    LaterOptions,
    Producer,
    RetryOptions,
    SequenceOptions,
    Sharing,
    Step,
    Throttle,
    To,
    controller,
    endpoint,
    record,
    timeout,
)
from dragoman.adapters.memory import MemoryBroker
from dragoman.client.dead_letters import DeadLetters
from dragoman.core.database import Transaction
from dragoman.core.errors import (
    ClientError,
    ConfigurationError,
    DragomanError,
    EncodeError,
    StartupError,
)
from dragoman.core.registry import Registry
from tests.client.waiting import until


@record
class Ask:
    number: int


@record
class Answer:
    number: int


@record
class Note:
    text: str


OPTIONS: dict[str, Callable[[], Any]] = {
    "concurrency": lambda: EndpointOptions(concurrency=_any("4")),
    "retry": lambda: EndpointOptions(retry=_any(3)),
    "later": lambda: EndpointOptions(later=_any((1.0, 2.0))),
    "sharing": lambda: EndpointOptions(sharing=_any("everybody")),
    "start": lambda: EndpointOptions(start=_any("yesterday")),
    "attempts": lambda: RetryOptions(attempts=_any(2.5)),
    "jitter": lambda: RetryOptions(jitter=float("nan")),
    "never": lambda: RetryOptions(never=_any(ValueError)),
    "only": lambda: RetryOptions(only=_any((3,))),
    "delays": lambda: LaterOptions(delays=_any(5.0)),
    "window": lambda: ClientOptions(window=_any("many")),
    "naming": lambda: ClientOptions(naming=_any("topic")),
    "options of an endpoint": lambda: endpoint("asks", options=_any({"concurrency": 4})),
    "options of a controller": lambda: controller(options=_any({})),
    "options of a client": lambda: Client("memory://", options=_any({"name": "x"})),
    "channel name": lambda: endpoint(_any(5)),
    "raises": lambda: endpoint("asks", raises=_any(ValueError)),
    "middleware": lambda: endpoint("asks", middleware=_any(Deduplicate())),
    "a class, not an object": lambda: endpoint("asks", middleware=[_any(Deduplicate)]),
    "no middleware": lambda: Client("memory://", middleware=[_any(3)]),
    "rate": lambda: Throttle(_any("5")),
    "failures": lambda: CircuitBreaker(failures=_any("x")),
    "seconds": lambda: timeout(_any("5")),
    "remember": lambda: Deduplicate(_any("x")),
    "parts": lambda: SequenceOptions(parts=_any(2.5)),
    "name of a step": lambda: Step(_any(5), "asks", _any(print)),
    "cannot be called": lambda: Step("ask", "asks", _any(5)),
    "controllers": lambda: Client("memory://", controllers=_any(3)),
}


def _any(value: object) -> Any:
    """So that the type checker lets a test make the mistake."""
    return value


@pytest.mark.parametrize("name", OPTIONS)
def test_a_wrong_option_is_named_where_it_is_given(name: str) -> None:
    with pytest.raises(ConfigurationError, match=name):
        OPTIONS[name]()


def test_sharing_may_be_given_as_text() -> None:
    assert EndpointOptions(sharing=_any("key-shared")).sharing is Sharing.KEY_SHARED


def yields_in_vain() -> Any:
    @endpoint("asks")
    def handle(ask: Ask) -> Iterator[Answer]:
        yield Answer(ask.number)

    return handle


def yields_something() -> Any:
    @endpoint("asks")
    async def handle(ask: Ask):  # type: ignore[no-untyped-def]
        yield Answer(ask.number)

    return handle


def raises_no_exception() -> Any:
    @endpoint("asks", raises=[_any(Note)])
    async def handle(ask: Ask) -> Answer: ...  # type: ignore[empty-body]

    return handle


def buries_in_its_own_channel() -> Any:
    @endpoint("asks", options=EndpointOptions(dead_letter="asks"))
    async def handle(ask: Ask) -> None: ...

    return handle


def selects_by_a_field_that_is_not_there() -> Any:
    @endpoint("asks", options=EndpointOptions(consumed_if="payload.amount > 3 and payload.number > 1"))
    async def handle(ask: Ask) -> None: ...

    return handle


def remembers_without_a_memory() -> Any:
    @endpoint("asks", identity="$message.payload#/number")
    async def handle(ask: Ask) -> None: ...

    return handle


def is_told_apart_by_nothing() -> Any:
    @endpoint("asks", identity="$message.payload#/nothing")
    def handle(ask: Ask, tx: Transaction) -> None: ...

    return handle


def sends_numbers() -> Any:
    @endpoint("asks")
    async def handle(ask: Ask, out: Annotated[Producer[int], To("numbers")]) -> None: ...

    return handle


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (yields_in_vain, "nothing would be run"),
        (yields_something, "does not say of which class"),
        (raises_no_exception, "Note in 'raises' is no exception class"),
        (buries_in_its_own_channel, "The option dead_letter is the channel itself"),
        (selects_by_a_field_that_is_not_there, "payload.amount, which Ask does not have"),
        (remembers_without_a_memory, "no transaction in which it could be remembered"),
        (is_told_apart_by_nothing, "Ask has nothing at"),
        (sends_numbers, "'out' is to send int, which is no record"),
    ],
)
async def test_an_endpoint_that_cannot_work_does_not_start(
    memory: MemoryBroker, registry: Registry, make: Callable[[], Any], told: str
) -> None:
    with pytest.raises(StartupError, match="problem") as caught:
        async with Client(memory, registry, [make()]):
            pass
    assert told in str(caught.value)


@pytest.mark.parametrize("name", ["broker", "registry", "database"])
async def test_what_is_no_broker_registry_or_database_is_refused(name: str) -> None:
    given = {"broker": "memory://", "registry": "memory://", name: 5}
    with pytest.raises(ConfigurationError, match=f"The {name} is int"):
        async with Client(**_any(given)):
            pass


CALLS: dict[str, Callable[[Client], Any]] = {
    "values is Ask, not a list": lambda client: client.publish_many("asks", _any(Ask(1))),
    "5 is not a channel name": lambda client: client.publish(_any(5), Ask(1)),
    "The headers are not pairs": lambda client: client.publish("asks", Ask(1), headers=_any(["a"])),
    "int is not a record class": lambda client: client.producer("asks", int),
    "The option delay is 'soon'": lambda client: client.publish("asks", Ask(1), delay=_any("soon")),
    "The option expires_in is 'soon'": lambda client: client.publish("asks", Ask(1), expires_in=_any("soon")),
    "The option timeout is 'soon'": lambda client: client.request(
        "asks", Ask(1), reply=Answer, timeout=_any("soon")
    ),
    "The option limit is 'three'": lambda client: client.poll("asks", Ask, limit=_any("three")).__aenter__(),
}


@pytest.mark.parametrize("told", CALLS)
async def test_a_wrong_argument_of_a_call_is_named(
    memory: MemoryBroker, registry: Registry, told: str
) -> None:
    async with Client(memory, registry) as client:
        with pytest.raises(DragomanError) as caught:
            await CALLS[told](client)
    assert told in str(caught.value)


async def test_a_reply_that_is_not_declared_is_told_to_the_requester(
    memory: MemoryBroker, registry: Registry
) -> None:
    @endpoint("asks")
    async def handle(ask: Ask):  # type: ignore[no-untyped-def]
        return Answer(ask.number)

    async with Client(memory, registry, [handle]) as client:
        for number in range(2):
            with pytest.raises(ClientError, match="not annotated with it"):
                await client.request("asks", Ask(number), reply=Answer, timeout=60)
        await client.publish("asks", Ask(2))
        await until(lambda: client.metrics.of("asks").handled == 1)
        letters = await DeadLetters(memory, "asks.dead").find()
    assert [letter.code for letter in letters] == ["configuration.reply"] * 2


async def test_nothing_is_no_answer_of_an_endpoint_that_promises_one(
    memory: MemoryBroker, registry: Registry
) -> None:
    @endpoint("asks")
    async def handle(ask: Ask) -> Answer:
        nothing: Answer = _any(None)
        return nothing

    @endpoint("quiet.asks")
    async def may_be_silent(ask: Ask) -> Answer | None:
        return None

    async with Client(memory, registry, [handle, may_be_silent]) as client:
        with pytest.raises(ClientError, match="not NoneType"):
            await client.request("asks", Ask(1), reply=Answer, timeout=60)
        await client.publish("quiet.asks", Ask(1), headers={"reply-to": "somewhere"})
        await until(lambda: client.metrics.of("quiet.asks").handled == 1)
        assert client.metrics.of("quiet.asks").dead == 0


async def test_a_stop_iteration_in_a_thread_is_a_failure_like_others(
    memory: MemoryBroker, registry: Registry, tmp_path: Path
) -> None:
    once = EndpointOptions(retry=RetryOptions(attempts=1))

    @endpoint("asks", options=once)
    def handle(ask: Ask) -> Answer:
        return next(iter(()))

    @endpoint("asks.kept", options=once)
    def remember(ask: Ask, tx: Transaction) -> Answer:
        return next(iter(()))

    database = f"sqlite://{tmp_path / 'app.db'}"
    async with Client(memory, registry, [handle, remember], database=database) as client:
        for channel in ("asks", "asks.kept"):
            with pytest.raises(ClientError, match="The endpoint failed"):
                await client.request(channel, Ask(1), reply=Answer, timeout=60)
            assert client.metrics.of(channel).dead == 1


async def test_a_strategy_may_be_a_plain_function_but_gives_an_outcome(
    memory: MemoryBroker, registry: Registry
) -> None:
    seen = []

    def note(delivery: Any, error: Exception) -> None:
        seen.append(type(error))

    strategy = EndpointOptions(retry=RetryOptions(attempts=1), on_failure=_any(note))

    @endpoint("asks", options=strategy)
    async def handle(ask: Ask) -> None:
        raise ValueError

    async with Client(memory, registry, [handle]) as client:
        await client.publish("asks", Ask(1))
        await until(lambda: seen)
        await until(lambda: client.metrics.of("asks").returned)
    assert seen[0] is ValueError


async def polled(values: AsyncIterator[Ask], count: int) -> list[int]:
    found = []
    async for each in values:
        found.append(each.number)
        if len(found) == count:
            break
    return found


async def test_a_loop_over_a_poll_needs_no_block(memory: MemoryBroker, registry: Registry) -> None:
    async with Client(memory, registry) as client:
        await client.publish_many("asks", [Ask(number) for number in range(4)], partition=0)
        first = [each.number async for each in client.poll("asks", Ask, group="reports", limit=2)]
        left_early = await polled(aiter(client.poll("asks", Ask, group="reports")), 1)
        await until(lambda: client.in_flight == 0)
        rest = [each.number async for each in client.poll("asks", Ask, group="reports", limit=2)]
    assert (first, left_early, rest) == ([0, 1], [2], [2, 3])


async def test_an_encoding_error_names_no_value(memory: MemoryBroker, registry: Registry) -> None:
    async with Client(memory, registry) as client:
        with pytest.raises(EncodeError) as caught:
            await client.publish("asks", Ask(_any("a secret")))
    assert "secret" not in str(caught.value)
