"""What was sent and what became of it, and the same again in tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from dragoman.cli.demo.places import loan_broker
from dragoman.cli.demo.processes import Processes
from dragoman.cli.output import emit_table, say


@dataclass(frozen=True, slots=True)
class Account:
    """``outcomes`` is what each customer was told, ``letters`` what went aside."""

    outcomes: Mapping[str, str]
    letters: Counter[str]
    corrupt: int
    in_channel: int | None
    """Messages that the channel of requests has got, if the broker keeps them."""

    @property
    def sent(self) -> int:
        return len(self.outcomes) + self.corrupt

    @property
    def quoted(self) -> int:
        return sum(outcome == "quoted" for outcome in self.outcomes.values())

    @property
    def lost(self) -> int:
        return self.sent - self.quoted - self.letters.total()

    @property
    def repeated(self) -> int:
        """Requests that were sent again, since their sender was replaced before it could record that."""
        return 0 if self.in_channel is None else self.in_channel - self.sent

    @property
    def adds_up(self) -> bool:
        return self.lost == 0 and self.letters["invalid"] == self.corrupt and self.repeated >= 0

    def show(self) -> None:
        emit_table(
            ("what became of them", "messages"),
            [
                ("sent", self.sent),
                ("quoted, and collected by the customer", self.quoted),
                ("expired before they were handled", self.letters["expired"]),
                ("refused by the loan broker, in the dead letters", self.letters["dead"]),
                ("unreadable, in the invalid-message channel", self.letters["invalid"]),
                ("lost", self.lost),
                ("asked a second time while a process was replaced", self.repeated),
            ],
        )


@dataclass(frozen=True, slots=True)
class Tables:
    rows: int
    quarantined: int


def keep_tables(processes: Processes, target: Path) -> Tables | None:
    """Every request again, as a row of a table or of its quarantine."""
    channels = loan_broker("channels")
    say("Spark keeps the channels in tables, what cannot be read or has expired in their quarantine.")
    names = [channels.LOAN_REQUEST, channels.new_loan_requested_channel(1)]
    chosen = [word for name in names for word in ("--channel", name)]
    missing = processes.run_unless(
        "pipeline.spark", "pipeline", "run", *chosen, "--to", str(target), "--once", "--json"
    )
    if missing:
        say("No Java 17 here, so this part is left out: install one and see.")
        return None
    from dragoman.pipeline.running import Flow
    from dragoman.pipeline.tables import open_table

    counted = []
    for name in names:
        table = Flow(name).table_name
        for each in (table, f"{table}_quarantine"):
            counted.append((each, open_table("delta", str(target), each).count()))
    emit_table(("table", "rows"), counted)
    return Tables(counted[0][1], counted[1][1])
