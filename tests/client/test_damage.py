"""Damaged messages stop their partition, not the receive loop, whichever loop it is."""

from __future__ import annotations

import ast
import asyncio
import logging
from pathlib import Path

import pytest

import dragoman.client
from dragoman.client.headers import CORRELATION_ID
from dragoman.client.mailbox import Mailbox
from dragoman.client.metrics import ChannelMetrics
from dragoman.client.pausing import Pauses
from dragoman.client.requests import One
from dragoman.core.broker import Acknowledgement, Subscription
from dragoman.core.errors import DamagedLog
from dragoman.core.message import Message
from tests.client.scripted import ScriptedBroker
from tests.client.waiting import until


@pytest.mark.parametrize("acknowledgement", Acknowledgement)
async def test_replies_come_from_other_partitions_while_one_is_damaged(
    acknowledgement: Acknowledgement, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A group that is not durable would lose them with its receiver: a new one starts at the latest."""
    monkeypatch.setattr("dragoman.client.damage.REST_S", 0.001)
    monkeypatch.setattr("dragoman.client.mailbox.IDLE_WAIT", 0.01)
    broker = ScriptedBroker(acknowledgement)
    await broker.connect()
    wanted = Subscription(("replies",), "asker", start="latest", durable=False)
    mailbox = Mailbox(broker, wanted, ChannelMetrics(), Pauses())
    await mailbox.open()
    for number in range(10):
        waiter = mailbox.waiting[b"%d" % number] = One(asyncio.get_running_loop())
        broker.receiver.fail(DamagedLog(7, 9, next="Restore it.", channel="replies", partition=0))
        broker.receiver.deliver(
            Message("replies", b"x", None, ((CORRELATION_ID, b"%d" % number),), 1, number, 1_000)
        )
        async with asyncio.timeout(60):
            assert (await waiter.future).offset == number
    await until(lambda: 9 in broker.receiver.offsets)
    await mailbox.close()
    await broker.close()
    assert len(broker.receivers) == 1
    [line] = [each for each in caplog.records if each.levelno >= logging.WARNING]
    assert (line.group, line.partition, line.offset, line.count) == ("asker", 0, 7, 2)


def test_no_loop_of_the_client_receives_without_the_rule_for_damage() -> None:
    found = []
    for path in sorted(Path(dragoman.client.__file__).parent.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            called = node.func if isinstance(node, ast.Call) else None
            if isinstance(called, ast.Attribute) and called.attr == "receive":
                found.append(f"{path.stem}: {ast.unparse(called.value)}")
    assert found == [
        "bridge: self._damage",
        "consumer: self._damage",
        "damage: receiver",
        "mailbox: self._damage",
    ]
