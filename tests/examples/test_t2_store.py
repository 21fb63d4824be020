"""The T2 store in processes of its own, killed one after the other: money, stock and orders add up."""

from __future__ import annotations

import asyncio
import signal
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx

from tests.examples.programs import PATIENCE, Program

COUNT = 20
STRANGE_PRODUCTS, STRANGE_CARDS = {11: "moonstone"}, {13: "found in the street"}


def program(name: str, folder: Path, **environment: str) -> Program:
    return Program("-m", "t2_store", name, str(folder), T2_REFUSED="0.3", **environment)


def asked(folder: Path, name: str, sql: str) -> list[Any]:
    with closing(sqlite3.connect(folder / f"{name}.db")) as connection:
        return connection.execute(sql).fetchall()


async def buy(url: str, number: int) -> None:
    """Some want what there is little or nothing of, some cannot pay; the others are refused at random."""
    wish = {
        "session_id": f"s-{number}",
        "product": STRANGE_PRODUCTS.get(number, "gold" if number % 6 == 0 else "tea"),
        "card_number": STRANGE_CARDS.get(number, "poor" if number % 10 == 9 else "4711"),
        "units": 1 + number % 3,
        "total": 10 * (1 + number % 3),
    }
    async with httpx.AsyncClient(base_url=url) as client:
        answer = await client.post("/purchases", json=wish)
    assert answer.status_code == 202, answer.text


async def states(url: str) -> dict[int, str]:
    async with httpx.AsyncClient(base_url=url) as client:
        answers = [await client.get(f"/purchases/s-{number}") for number in range(COUNT)]
    return {number: answer.json()["state"] for number, answer in enumerate(answers)}


async def kept_running(name: str, folder: Path) -> None:
    """A participant that is started again whenever it has died."""
    strikes = str(folder / "strikes")
    while True:
        async with program(name, folder, T2_STRIKES=strikes) as participant:
            assert await participant.line() == "ready"
            assert await participant.wait() == -signal.SIGKILL


async def test_whoever_is_killed_money_stock_and_orders_add_up(tmp_path: Path) -> None:
    (tmp_path / "strikes").mkdir()
    participants = [
        asyncio.create_task(kept_running(name, tmp_path)) for name in ("inventory", "order", "payment")
    ]
    try:
        async with program("front", tmp_path) as front:
            url = (await front.line()).removeprefix("ready ")
            for number in range(COUNT):
                await buy(url, number)
        async with program("front", tmp_path) as front:
            url = (await front.line()).removeprefix("ready ")
            await buy(url, 0)  # The customer did not see the answer, and asks again.
            found = await _all_ended(url)
    finally:
        for task in participants:
            task.cancel()
        results = await asyncio.gather(*participants, return_exceptions=True)
    assert all(isinstance(each, asyncio.CancelledError) for each in results), results
    killed_in = {each.name for each in (tmp_path / "strikes").iterdir()}
    assert killed_in == {"RESERVE", "RELEASE", "COMMIT", "CREATE", "REJECT", "PAY"}
    _adds_up(tmp_path, found)


async def _all_ended(url: str) -> dict[int, str]:
    async with asyncio.timeout(2 * PATIENCE):
        while True:
            found = await states(url)
            if set(found.values()) <= {"completed", "rejected"}:
                return found
            await asyncio.sleep(0.2)


def _adds_up(folder: Path, found: dict[int, str]) -> None:
    completed = {f"s-{number}" for number, state in found.items() if state == "completed"}
    rejected = {f"s-{number}" for number, state in found.items() if state == "rejected"}
    units = {f"s-{number}": 1 + number % 3 for number in found}
    assert completed
    assert rejected >= {f"s-{number}" for number in (*STRANGE_PRODUCTS, *STRANGE_CARDS)}
    payments = dict(asked(folder, "payment", "SELECT session, total FROM payments"))
    assert payments == {session: 10 * units[session] for session in completed}
    [(money,)] = asked(folder, "payment", "SELECT SUM(balance) FROM accounts")
    assert money + sum(payments.values()) == 100_005
    orders = dict(asked(folder, "order", "SELECT session, status FROM orders"))
    assert {session for session, status in orders.items() if status == "SUCCESS"} == completed
    assert set(orders) - completed <= rejected
    assert asked(folder, "inventory", "SELECT * FROM reservations") == []
    for product, start in (("tea", 1000), ("gold", 3)):
        [(left, sold)] = asked(
            folder, "inventory", f"SELECT units, sold FROM products WHERE name = '{product}'"
        )
        wanted = [session for session in completed if (int(session[2:]) % 6 == 0) == (product == "gold")]
        assert sold == sum(units[session] for session in wanted)
        assert left + sold == start
