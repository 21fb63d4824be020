"""The table of capabilities has no entry that no test backs."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from types import ModuleType

import pytest

import dragoman.testing.brokers as suite
from dragoman.client.comparison import ROWS, compare
from dragoman.core.broker import Capabilities
from dragoman.testing.brokers import BrokerSuite
from tests.brokers import (
    test_embedded_conformance,
    test_memory_conformance,
    test_mqtt_conformance,
    test_nats_conformance,
    test_nats_server,
    test_rabbitmq_conformance,
    test_redis_conformance,
)
from tests.brokers.kafka import test_conformance as test_kafka_conformance
from tests.brokers.kafka import test_transactions

CONFORMANCE = {
    "embedded": test_embedded_conformance,
    "kafka": test_kafka_conformance,
    "memory": test_memory_conformance,
    "mqtt": test_mqtt_conformance,
    "nats": test_nats_conformance,
    "rabbitmq": test_rabbitmq_conformance,
    "redis": test_redis_conformance,
}

BY_ITSELF: dict[tuple[str, str], tuple[ModuleType, str]] = {
    ("transactions", "kafka"): (
        test_transactions,
        "test_a_process_killed_in_the_middle_moves_everything_once",
    ),
    ("deduplication", "nats"): (
        test_nats_server,
        "test_a_message_that_is_published_twice_is_stored_once",
    ),
}
"""What one broker alone can do is tested beside its adapter."""


def asked_for() -> set[str]:
    """The capabilities that tests of the suite need, or expect something else without."""
    folder = Path(suite.__file__).parent
    return {name for path in folder.glob("*.py") for name in _asked_in(ast.parse(path.read_text()))}


def _asked_in(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "need":
            yield from (
                argument.value
                for argument in node.args
                if isinstance(argument, ast.Constant) and isinstance(argument.value, str)
            )
        elif (
            isinstance(node, ast.Attribute)
            and isinstance(node.value, ast.Attribute)
            and node.value.attr == "capabilities"
        ):
            yield node.attr


def test_the_table_names_every_capability() -> None:
    assert set(ROWS) == {field.name for field in fields(Capabilities)}


def test_every_broker_of_the_table_runs_the_whole_suite() -> None:
    table = compare()
    for scheme in next(iter(table.values())):
        classes = [
            found
            for _, found in inspect.getmembers(CONFORMANCE[scheme], inspect.isclass)
            if issubclass(found, BrokerSuite) and found is not BrokerSuite
        ]
        assert classes, f"{scheme} is not held to the suite"
        for found in classes:
            replaced = [name for name in vars(found) if name.startswith("test_")]
            assert not replaced, f"{found.__name__} has its own idea of {replaced}"


@pytest.mark.parametrize("capability", ROWS)
def test_every_capability_that_is_claimed_is_tested(capability: str) -> None:
    if capability in asked_for():
        return
    for scheme, said in compare()[capability].items():
        if said != "-":
            module, name = BY_ITSELF[capability, scheme]
            assert inspect.iscoroutinefunction(getattr(module, name))
