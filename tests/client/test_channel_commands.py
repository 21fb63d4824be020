"""``dragoman channel``: what it prints, in both ways, and how it exits."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any

import pytest

from dragoman import Client, EndpointOptions, RetryOptions, endpoint, record
from dragoman.cli import main
from dragoman.schema.markers import Min
from tests.client.waiting import until

Run = Callable[..., tuple[int, str, str]]


@record
class Order:
    order_id: int
    total: Annotated[float, Min(0)]
    note: str | None = None


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder of its own, so that the embedded defaults are this test's alone."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DRAGOMAN_BROKER", raising=False)
    monkeypatch.delenv("DRAGOMAN_REGISTRY", raising=False)
    monkeypatch.setenv("COLUMNS", "200")
    yield tmp_path


@pytest.fixture
def dragoman(here: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    def run(*arguments: str) -> tuple[int, str, str]:
        capsys.readouterr()
        code = 0
        try:
            main(["channel", *arguments])
        except SystemExit as ended:
            code = ended.code if isinstance(ended.code, int) else 0
        printed = capsys.readouterr()
        return code, printed.out, printed.err

    return run


def publish(*orders: Order, handle: Any = None) -> None:
    """Publish orders, and wait until an endpoint has handled them if one is given."""

    async def work() -> None:
        async with Client(controllers=[handle] if handle else []) as client:
            await client.producer("orders", Order)
            await client.publish_many("orders", orders, key=lambda order: order.order_id)
            counters = client.metrics.of("orders")
            if handle:
                await until(lambda: counters.handled + counters.dead == len(orders))

    asyncio.run(work())


def lines(text: str) -> list[Any]:
    return [json.loads(line) for line in text.splitlines()]


def test_channels_are_created_listed_described_and_deleted(dragoman: Run) -> None:
    assert dragoman("create", "orders", "--partitions", "2", "--retention", "60")[:2] == (
        0,
        "Created orders.\n",
    )
    assert dragoman("create", "orders")[1] == "orders was there already.\n"
    assert lines(dragoman("list", "--json")[1])[0] == [
        {"channel": "orders", "partitions": 2, "retention": 60.0}
    ]
    described = lines(dragoman("describe", "orders", "--json")[1])[0]
    assert described["bounds"] == [{"partition": n, "start": 0, "end": 0} for n in (0, 1)]
    assert "orders" in dragoman("list")[1]
    assert "2 partitions" in dragoman("describe", "orders")[1]
    assert dragoman("delete", "orders", "--yes")[0] == 0
    assert dragoman("describe", "orders")[0] == 2


def test_json_is_published_under_the_contract_and_shown_again(dragoman: Run, here: Path) -> None:
    publish()
    code, out, _ = dragoman("publish", "orders", '{"order_id": 1, "total": 2.5, "note": null}', "--key", "k")
    assert (code, out) == (0, "Published 1 message to orders.\n")
    (here / "orders.jsonl").write_text(
        '{"order_id": 2, "total": 1.0, "note": "x"}\n\n{"order_id": 3, "total": 1}\n'
    )
    assert lines(dragoman("publish", "orders", "--file", "orders.jsonl", "--json")[1]) == [
        {"channel": "orders", "published": 2, "refused": 0}
    ]
    shown = lines(dragoman("tail", "orders", "--from", "earliest", "--json")[1])
    assert [each["value"]["order_id"] for each in shown] == [1, 2, 3]
    assert shown[0]["key"] == "k"
    assert '"note": "x"' in dragoman("tail", "orders")[1]
    [raw] = lines(dragoman("tail", "orders", "--raw", "--json", "--from", "earliest", "--limit", "1")[1])
    assert raw["payload"].startswith("00000000")


def test_lines_that_the_contract_refuses_are_reported_and_left_out(dragoman: Run) -> None:
    publish()
    code, out, error = dragoman(
        "publish", "orders", '{"order_id": "one"}', "not json", '{"order_id": 1, "total": 1.0, "note": null}'
    )
    assert code == 1
    assert out == "Published 1 message to orders.\n"
    assert "line 1: order_id" in error and "line 2:" in error and "2 refused" in error


def test_what_is_not_there_cannot_be_done(dragoman: Run) -> None:
    for arguments in (
        ("tail", "nothing"),
        ("publish", "nothing", "{}"),
        ("lag", "nothing"),
        ("dead", "list", "nothing"),
        ("replay", "nothing", "nowhere"),
        ("tail", "orders", "--from", "yesterday"),
        ("create", "not a name"),
        ("create", "orders", "--retention", "-1"),
        ("publish", "orders", "--file", "nothing.json"),
        ("create", "orders", "--setting", "novalue"),
        ("tail", "orders", "--broker", "nowhere://x"),
    ):
        code, out, error = dragoman(*arguments)
        assert (code, out) == (2, ""), arguments
        assert error
    code, _, error = dragoman("tail", "nothing", "--json")
    assert code == 2
    assert json.loads(error)["error"]["code"] == "broker.channel-not-found"


def test_dead_letters_are_listed_shown_replayed_and_discarded(dragoman: Run) -> None:
    @endpoint("orders", group="shop", options=EndpointOptions(retry=RetryOptions(attempts=1)))
    async def failing(order: Order) -> None:
        raise ValueError(f"no stock for {order.order_id}")

    publish(Order(1, 1.0), Order(2, 2.0), Order(3, 3.0), handle=failing)
    listed = lines(dragoman("dead", "list", "orders", "--json")[1])[0]
    assert {row["message"] for row in listed} == {f"no stock for {n}" for n in (1, 2, 3)}
    assert {row["code"] for row in listed} == {"endpoint.failed"}
    assert "no stock" in dragoman("dead", "list", "orders")[1]
    first, second, _ = (row["id"] for row in listed)
    [shown] = lines(dragoman("dead", "show", "orders", first, "--json")[1])
    assert shown["value"]["order_id"] in (1, 2, 3)
    assert shown["headers"]["dragoman-group"] == "shop"
    assert "dragoman-error-code: endpoint.failed" in dragoman("dead", "show", "orders.dead", first)[1]
    assert dragoman("dead", "replay", "orders", first)[:2] == (0, "1 letter replayed.\n")
    assert len(lines(dragoman("tail", "orders", "--from", "earliest", "--json")[1])) == 4
    assert dragoman("dead", "replay", "orders", first)[0] == 2
    assert dragoman("dead", "discard", "orders", second)[0] == 0
    assert dragoman("dead", "discard", "orders")[0] == 2
    assert lines(dragoman("dead", "discard", "orders", "--all", "--json")[1]) == [{"discarded": 1}]
    assert dragoman("dead", "discard", "orders", "--all")[0] == 1
    assert lines(dragoman("dead", "list", "orders", "--json")[1]) == [[]]
    assert lines(dragoman("dead", "list", "orders", "--invalid", "--json")[1]) == [[]]


def test_a_channel_that_never_had_letters_has_none(dragoman: Run) -> None:
    dragoman("create", "orders")
    assert dragoman("dead", "list", "orders")[:2] == (0, "There are no open letters.\n")


def test_lag_tells_how_far_a_group_is_behind(dragoman: Run) -> None:
    @endpoint("orders", group="shop")
    async def handling(order: Order) -> None: ...

    publish(Order(1, 1.0), Order(2, 2.0), handle=handling)
    rows = lines(dragoman("lag", "orders", "--json")[1])[0]
    assert {row["group"] for row in rows} == {"shop"}
    assert sum(row["committed"] for row in rows) == 2
    publish(Order(3, 3.0))
    assert (
        sum(row["behind"] for row in lines(dragoman("lag", "orders", "--json", "--group", "shop")[1])[0]) == 1
    )


def test_a_replay_goes_to_another_channel(dragoman: Run) -> None:
    publish(Order(1, 1.0), Order(2, 2.0))
    dragoman("create", "copies")
    assert lines(dragoman("replay", "orders", "copies", "--json")[1])[0]["replayed"] == 2
    assert len(lines(dragoman("tail", "copies", "--json")[1])) == 2


def damaged(here: Path, *marks: bytes) -> None:
    """Each of these texts, which stands in one message, is not what was written any more."""
    for mark in marks:
        [path] = [path for path in (here / ".dragoman").rglob("*.log") if mark in path.read_bytes()]
        path.write_bytes(path.read_bytes().replace(mark, mark.swapcase()))


def test_replay_and_tail_leave_out_damaged_messages_if_asked_to(dragoman: Run, here: Path) -> None:
    for number in range(6):
        publish(Order(number, 1.0, note=f"note{number}"))
    dragoman("create", "copies")
    damaged(here, b"note1", b"note3", b"note4")

    for command in (("replay", "orders", "copies"), ("tail", "orders", "--from", "earliest")):
        code, _, printed = dragoman(*command)
        assert code != 0
        assert "--skip-damaged" in printed and "channel skip" not in printed
    assert lines(dragoman("tail", "copies", "--json")[1]) == []

    code, printed, about = dragoman("replay", "orders", "copies", "--skip-damaged", "--json")
    assert (code, lines(printed)) == (
        0,
        [{"source": "orders", "target": "copies", "replayed": 3, "damaged": 3}],
    )
    assert about.count("Left out") >= 2 and "partition" in about
    assert len(lines(dragoman("tail", "copies", "--json")[1])) == 3
    code, printed, about = dragoman("tail", "orders", "--from", "earliest", "--skip-damaged", "--json")
    assert (code, len(lines(printed))) == (0, 3)
    assert "Left out" in about


@pytest.fixture
def letters(dragoman: Run, here: Path) -> list[str]:
    """The ids of those that can be read, of six letters."""

    @endpoint("orders", group="shop", options=EndpointOptions(retry=RetryOptions(attempts=1)))
    async def failing(order: Order) -> None:
        raise ValueError(f"no stock of number{order.order_id}")

    for number in range(6):
        publish(Order(number, 1.0), handle=failing)
    ids = {row["message"]: row["id"] for row in lines(dragoman("dead", "list", "orders", "--json")[1])[0]}
    damaged(here, b"no stock of number1", b"no stock of number4")
    return [id for message, id in ids.items() if message[-1] not in "14"]


@pytest.mark.parametrize(
    "command", [("list",), ("show", "{0}"), ("replay", "--all"), ("replay", "{0}"), ("discard", "{0}", "{3}")]
)
def test_dead_letters_stop_at_damage_and_name_the_way_past_it(
    command: tuple[str, ...], dragoman: Run, letters: list[str]
) -> None:
    verb, *more = (part.format(*letters) for part in command)
    code, printed, about = dragoman("dead", verb, "orders", *more)
    assert (code, printed) == (2, "")
    assert "--skip-damaged" in about and "channel skip" not in about


def test_letters_between_damaged_ones_are_dealt_with_if_damage_is_left_out(
    dragoman: Run, letters: list[str], here: Path
) -> None:
    def dead(verb: str, *more: str) -> tuple[int, Any, str]:
        code, printed, about = dragoman("dead", verb, "orders", *more, "--skip-damaged", "--json")
        assert about.count("Left out") == 2 and "partition" in about
        return code, *lines(printed), about

    def listed() -> list[str]:
        code, rows, _ = dead("list")
        assert code == 0
        return [row["id"] for row in rows]

    assert listed() == letters
    first, *others, last = letters
    assert dead("show", first)[1]["headers"]["dragoman-error-message"] == "no stock of number0"
    assert dead("replay", first, last)[:2] == (0, {"replayed": 2, "damaged": 2})
    assert listed() == others
    assert dead("discard", others[0], others[0])[:2] == (0, {"discarded": 1, "damaged": 2})
    assert dead("replay", "--all")[:2] == (0, {"replayed": 1, "damaged": 2})
    assert listed() == []
    copies = lines(dragoman("tail", "orders", "--from", "earliest", "--json")[1])
    assert sum("dragoman-replayed-from" in copy["headers"] for copy in copies) == 3

    # What was said of a letter may be damaged, too. Then it is open again, and not lost.
    damaged(here, b"discarded")
    code, printed, about = dragoman("dead", "list", "orders", "--skip-damaged", "--json")
    assert [row["id"] for row in lines(printed)[0]] == others[:1]
    assert (code, about.count("Left out")) == (0, 3)
