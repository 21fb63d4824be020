"""Calling an endpoint: its arguments from the delivery, its return value to the reply."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import Executor
from functools import partial
from typing import Any

from dragoman.client import markers
from dragoman.client.batch import Batch
from dragoman.client.cancellation import as_failure
from dragoman.client.delivery import Delivery
from dragoman.client.endpoint import Endpoint
from dragoman.client.outcome import DONE, Handler, Outcome
from dragoman.client.parameters import Kind, Parameter
from dragoman.client.reply import Answers, check_undeclared
from dragoman.client.threads import in_thread_of
from dragoman.client.transactional.receiving import TRANSACTION
from dragoman.core.message import Message

Call = Callable[[Delivery], Any]


def invocation(
    endpoint: Endpoint,
    given: Mapping[str, Any],
    executor: Executor,
    answers: Answers | None,
) -> Handler:
    """The innermost handler. ``given`` are the injected arguments, by parameter."""
    call, silent = _call(endpoint, given, executor), endpoint.silent

    async def invoke(delivery: Delivery) -> Outcome:
        try:
            result = await call(delivery)
        except Exception:
            raise
        except BaseException as error:
            raise as_failure(error) from error
        if result is not None:
            check_undeclared(delivery.message, result)
        return DONE

    async def invoke_and_reply(delivery: Delivery) -> Outcome:
        assert answers is not None
        try:
            result = await call(delivery)
        except Exception:
            raise
        except BaseException as error:
            raise as_failure(error) from error
        if result is not None or not silent:
            await answers.reply(delivery, result)
        return DONE

    if answers is None:
        return invoke
    if inspect.isasyncgenfunction(endpoint.function):
        return _declaring(_streaming(call, answers), answers)
    return _declaring(invoke_and_reply, answers)


def _streaming(call: Call, answers: Answers) -> Handler:
    """An endpoint that yields its replies."""

    async def invoke(delivery: Delivery) -> Outcome:
        try:
            await answers.stream(delivery, call(delivery))
        except Exception:
            raise
        except BaseException as error:
            raise as_failure(error) from error
        return DONE

    return invoke


def _declaring(handler: Handler, answers: Answers) -> Handler:
    """Errors that the endpoint declares are answers, if somebody waits for one."""
    declared = tuple(answers.raised)
    if not declared:
        return handler

    async def invoke(delivery: Delivery) -> Outcome:
        try:
            return await handler(delivery)
        except declared as error:
            if not await answers.error(delivery, error):
                raise
            return DONE

    return invoke


def _call(endpoint: Endpoint, given: Mapping[str, Any], executor: Executor) -> Call:
    function = endpoint.function
    if not inspect.iscoroutinefunction(function) and not inspect.isasyncgenfunction(function):
        function = _threaded(function, executor)
    return call_of(endpoint, function, given)


def value_function(endpoint: Endpoint) -> Callable[[Any], Awaitable[Any]] | None:
    """The endpoint's function, if it is a coroutine function of the value and of nothing else."""
    alone = inspect.iscoroutinefunction(endpoint.function) and _takes_value_alone(endpoint)
    return endpoint.function if alone else None


def _takes_value_alone(endpoint: Endpoint) -> bool:
    kinds = [each.kind for each in endpoint.parameters]
    return kinds == [Kind.PAYLOAD] and not _keyword_only(endpoint.function)


def call_of(endpoint: Endpoint, function: Callable[..., Any], given: Mapping[str, Any]) -> Call:
    """The endpoint's function, or what stands for it, with its arguments from a delivery."""
    if _takes_value_alone(endpoint):
        return lambda delivery: function(delivery.value)
    by_name = _keyword_only(endpoint.function)
    getters = [_getter(each, given) for each in endpoint.parameters if each.name not in by_name]
    named = [(each.name, _getter(each, given)) for each in endpoint.parameters if each.name in by_name]
    if not named:
        return lambda delivery: function(*[get(delivery) for get in getters])
    return lambda delivery: function(
        *[get(delivery) for get in getters], **{name: get(delivery) for name, get in named}
    )


def _keyword_only(function: Callable[..., Any]) -> set[str]:
    parameters = inspect.signature(function).parameters.values()
    return {each.name for each in parameters if each.kind is each.KEYWORD_ONLY}


def _threaded(function: Callable[..., Any], executor: Executor) -> Callable[..., Awaitable[Any]]:
    async def call(*arguments: Any, **named: Any) -> Any:
        result = await in_thread_of(executor, partial(function, *arguments, **named))
        # A decorator may hide that the function is asynchronous: the message is handled when that has ended.
        return await result if inspect.isawaitable(result) else result

    return call


def _getter(parameter: Parameter, given: Mapping[str, Any]) -> Callable[[Delivery], Any]:
    get = _getter_of_one(parameter, given)
    return (lambda delivery: [get(each) for each in _members(delivery)]) if parameter.many else get


def _members(delivery: Delivery) -> Sequence[Delivery]:
    return delivery.members if isinstance(delivery, Batch) else (delivery,)


def _getter_of_one(parameter: Parameter, given: Mapping[str, Any]) -> Callable[[Delivery], Any]:
    match parameter.kind:
        case Kind.PAYLOAD:
            return lambda delivery: delivery.value
        case Kind.KEY:
            return lambda delivery: delivery.key
        case Kind.HEADERS:
            return _tuple_of_headers if parameter.types == (tuple,) else _dict_of_headers
        case Kind.METADATA:
            return metadata
        case Kind.MESSAGE:
            return _message
        case Kind.TRANSACTION:
            return lambda delivery: delivery.notes[TRANSACTION]
        case Kind.PRODUCER | Kind.CLIENT | Kind.OUTBOX:
            value = given[parameter.name]
            return lambda delivery: value


def metadata(delivery: Delivery) -> markers.Metadata:
    message, route = delivery.message, delivery.route
    version = route.version
    return markers.Metadata(
        message.channel,
        message.partition,
        message.offset,
        message.timestamp,
        message.attempt,
        route.endpoint,
        route.group,
        None if version is None else version.contract,
        None if version is None else version.version,
        None if version is None else version.schema.id,
    )


def _message(delivery: Delivery) -> Message:
    return delivery.message


def _dict_of_headers(delivery: Delivery) -> dict[str, bytes]:
    return dict(delivery.message.headers)


def _tuple_of_headers(delivery: Delivery) -> tuple[tuple[str, bytes], ...]:
    return delivery.message.headers
