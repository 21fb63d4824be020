"""The page of guarantees has the numbers of a run on every broker, and they are what the page promises."""

from __future__ import annotations

from pathlib import Path

from tests.soak.brokers import SCHEMES, TITLES, UNANSWERED
from tests.soak.checker import Verdict
from tests.soak.conductor import Plan, Report
from tests.soak.page import COLUMNS, Row, with_results
from tests.soak.runs import NEMESES, NONE, RUNS, suits

PAGE = Path(__file__).parents[2] / "docs" / "guarantees.md"


def tables(text: str) -> dict[str, list[dict[str, str]]]:
    """The rows of each broker's table, by column."""
    found = {}
    for section in text.split("\n### ")[1:]:
        title, *lines = section.splitlines()
        cells = [[cell.strip() for cell in line[1:-1].split("|")] for line in lines if line.startswith("| ")]
        found[title] = [dict(zip(COLUMNS, each, strict=True)) for each in cells[2:]]
    return found


def row(scheme: str, run: str, **more: object) -> Row:
    verdict = Verdict(published=6400, confirmed=6400, handled=6400, **more)  # type: ignore[arg-type]
    return Row(scheme, run, Report(Plan(6400), verdict, {run: 3}, 1.0), is_good=True)


def test_new_results_replace_the_old_and_leave_the_text_alone() -> None:
    page = "# Title\n\n<!-- results -->\nold\n<!-- /results -->\n\nmore\n"
    once = with_results(page, [row("nats", NONE), row("nats", "kill-member", repeated=1234)], "make it")
    assert once.startswith("# Title\n\n<!-- results -->\n")
    assert once.endswith("<!-- /results -->\n\nmore\n")
    assert "old" not in once
    assert "`make it`" in once
    again = with_results(once, [row("mqtt", NONE)], "make it")
    assert "NATS" not in again
    [none, killed] = tables(once)["NATS"]
    assert (none["lost"], none["double-owned"]) == ("0", "0")
    assert (killed["confirmed"], killed["repeated"]) == ("6,400", "1,234")
    assert tables(again)["MQTT"][0]["double-owned"] == ""


def test_every_broker_is_on_the_page_with_every_disturbance() -> None:
    found = tables(PAGE.read_text())
    for scheme in SCHEMES:
        titles = [
            "Nothing is disturbed" if run == NONE else NEMESES[run]().title
            for run in RUNS
            if suits(run, scheme)
        ]
        assert [each[""] for each in found[TITLES[scheme]]] == titles


def test_no_row_of_the_page_breaks_a_promise() -> None:
    for title, rows in tables(PAGE.read_text()).items():
        for each in rows:
            assert (each["lost"], each["reordered"]) == ("0", "0"), (title, each)
            assert each["published"] == each["confirmed"], (title, each)
            unanswered = title in {TITLES[scheme] for scheme in UNANSWERED}
            assert each["double-owned"] == ("" if unanswered else "0"), (title, each)
            if "Rolling" in each[""] and title in ("Embedded", "Kafka"):
                assert each["repeated"] == "0", (title, each)
