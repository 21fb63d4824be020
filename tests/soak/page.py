"""The results on the page of guarantees, written from the reports of a run."""

from __future__ import annotations

import datetime
import platform
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from tests.soak.brokers import TITLES, UNANSWERED
from tests.soak.conductor import Report
from tests.soak.runs import NEMESES, NONE
from tests.soak.worker import PARTITIONS

BEGIN, END = "<!-- results -->\n", "<!-- /results -->"
COLUMNS = (
    "",
    "disturbed",
    "published",
    "confirmed",
    "lost",
    "repeated",
    "sent twice",
    "reordered",
    "double-owned",
    "overlapping",
)
HEAD = (f"| {' | '.join(COLUMNS)} |", f"| --- |{' ---: |' * (len(COLUMNS) - 1)}")


@dataclass(frozen=True)
class Row:
    scheme: str
    run: str
    report: Report
    is_good: bool

    def __str__(self) -> str:
        verdict = self.report.verdict
        title = "Nothing is disturbed" if self.run == NONE else NEMESES[self.run]().title
        cells = (
            title,
            sum(self.report.strikes.values()) or "",
            verdict.published,
            verdict.confirmed,
            len(verdict.lost),
            verdict.repeated,
            verdict.resent,
            len(verdict.reordered),
            "" if self.scheme in UNANSWERED else len(verdict.double_owned),
            verdict.overlapping,
        )
        return f"| {' | '.join(f'{each:,}' if isinstance(each, int) else each for each in cells)} |"


def results(rows: Sequence[Row], command: str) -> str:
    plan = rows[0].report.plan
    date = datetime.datetime.now(datetime.UTC).date()
    made = (
        f"Run on {date} by `{command}`, with Python {platform.python_version()} and all servers on one"
        f" machine. In each row, {plan.producers} producers publish {plan.messages:,} messages to a channel"
        f" of {PARTITIONS} partitions, and {plan.consumers} consumers handle them."
    )
    tables = [
        "\n".join([f"### {TITLES[scheme]}", "", *HEAD, *map(str, some)])
        for scheme, some in groupby(rows, lambda row: row.scheme)
    ]
    return "\n\n".join([made, *tables])


def with_results(page: str, rows: Sequence[Row], command: str) -> str:
    """The page with these results instead of those it has."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{results(rows, command)}\n\n{END}{after}"
