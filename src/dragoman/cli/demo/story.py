"""The demo as a story, told while it happens, with an account at the end."""

from __future__ import annotations

import asyncio
import os
import shlex
import socket
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from dragoman.cli.demo.processes import PATIENCE, Processes
from dragoman.cli.demo.records import GROUP, QUOTES, REQUESTS
from dragoman.cli.output import emit_table, out, say
from dragoman.core.broker import Broker
from dragoman.core.errors import DragomanError
from dragoman.core.loading import BROKERS, load, scheme_of

PRODUCERS = 2
KILL_AT = 0.3


@dataclass(frozen=True, slots=True)
class Account:
    """What was sent, and what became of it."""

    sent: int
    handled: int
    handled_twice: int
    dead: int
    invalid: int

    @property
    def adds_up(self) -> bool:
        return self.sent == self.handled + self.dead + self.invalid


class Story:
    def __init__(self, folder: Path, messages: int, tables: bool) -> None:
        self._folder = folder
        self._each = messages // PRODUCERS
        self._tables = tables
        self._messages = self._each * PRODUCERS
        self._url = f"embedded://{folder}/broker?lease=3"
        self._ledgers = folder / "ledgers"
        self._ledgers.mkdir(parents=True, exist_ok=True)

    def tell(self) -> bool:
        """Whether every message is accounted for."""
        say(f"Everything of this demo is in {self._folder}")
        with Processes(self._folder / "logs") as processes:
            registry = self._start_registry(processes)
            for name in ("consumer-1", "consumer-2"):
                self._start_consumer(processes, name, registry)
            say(f"Two consumers share the channel {REQUESTS} as the group {GROUP}.")
            for number in range(PRODUCERS):
                first = str(1 + number * self._each)
                processes.start(
                    f"producer-{number + 1}", "dragoman.cli.demo.producer",
                    self._url, registry, first, str(self._each),
                )  # fmt: skip
            say(f"Two producers send {self._messages} loan requests; some are damaged on purpose.")
            asyncio.run(self._watch(processes))
            account = asyncio.run(self._account())
            self._show(account)
            tables = self._keep_tables(registry, account) if self._tables else True
        if not (account.adds_up and tables):
            return False
        say("Every message is accounted for. Look around:")
        self._look_around()
        return True

    def _start_registry(self, processes: Processes) -> str:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        store = f"sqlite://{self._folder}/registry.db"
        arguments = ("registry", "serve", "--port", str(port), "--store", store)
        processes.start("registry", "dragoman.cli", *arguments)
        processes.wait_for_port("registry", port)
        say(f"The registry serves contracts at http://127.0.0.1:{port}")
        return f"http://127.0.0.1:{port}"

    def _start_consumer(self, processes: Processes, name: str, registry: str) -> None:
        ledger = str(self._ledgers / f"{name}.log")
        processes.start(name, "dragoman.cli.demo.consumer", self._url, registry, ledger)
        processes.wait_for_line(name, "ready")

    async def _watch(self, processes: Processes) -> None:
        """Until all is handled; one consumer dies on the way."""
        broker = await self._connected()
        deadline = time.monotonic() + PATIENCE
        killed = False
        columns = (TextColumn("  handled"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        try:
            with Progress(*columns, console=out) as progress:
                task = progress.add_task("handled", total=self._messages)
                while time.monotonic() < deadline:
                    handled = len(set(self._handled()))
                    progress.update(task, completed=handled)
                    if not killed and handled >= KILL_AT * self._messages:
                        processes.kill("consumer-1")
                        killed = True
                        progress.console.print("  consumer-1 is killed (SIGKILL); consumer-2 takes over.")
                    if killed and await self._finished(processes, broker):
                        progress.update(task, completed=len(set(self._handled())))
                        return
                    await asyncio.sleep(0.1)
        finally:
            await broker.close()
        raise DragomanError("The messages were not handled in time.", code="demo.slow", folder=self._folder)

    async def _finished(self, processes: Processes, broker: Broker) -> bool:
        producers = [processes.ended(f"producer-{number + 1}") for number in range(PRODUCERS)]
        return all(producers) and not sum(lag.behind for lag in await broker.lag(REQUESTS, GROUP))

    async def _account(self) -> Account:
        broker = await self._connected()
        log = broker.log()
        try:
            counts = {
                channel: sum(end - start for start, end in log.partitions(channel).values())
                for channel in log.channels()
            }
        finally:
            log.close()
            await broker.close()
        handled = self._handled()
        return Account(
            counts[REQUESTS],
            len(set(handled)),
            len(handled) - len(set(handled)),
            counts.get(f"{REQUESTS}.dead", 0),
            counts.get(f"{REQUESTS}.invalid", 0),
        )

    async def _connected(self) -> Broker:
        broker: Broker = load(BROKERS, scheme_of(self._url))(self._url)
        await broker.connect()
        return broker

    def _handled(self) -> list[str]:
        return [line for ledger in self._ledgers.glob("*.log") for line in ledger.read_text().split()]

    def _show(self, account: Account) -> None:
        emit_table(
            ("what became of them", "messages"),
            [
                ("sent", account.sent),
                ("handled and answered", account.handled),
                ("refused by the handler, in the dead letters", account.dead),
                ("unreadable, in the invalid-message channel", account.invalid),
                ("lost", account.sent - account.handled - account.dead - account.invalid),
                ("handled a second time after the kill", account.handled_twice),
            ],
        )

    def _keep_tables(self, registry: str, account: Account) -> bool:
        """Every message again, as rows of a table and of its quarantine."""
        say("Spark keeps the channel in a table, what cannot be read in its quarantine.")
        target = str(self._folder / "tables")
        command = [
            sys.executable, "-m", "dragoman.cli", "pipeline", "run", "--channel", REQUESTS, "--to", target,
            "--broker", self._url, "--registry", registry, "--once", "--json",
        ]  # fmt: skip
        done = subprocess.run(command, capture_output=True, text=True, env=dict(os.environ))
        if done.returncode == 2 and "pipeline.spark" in done.stderr:
            say("No Java 17 here, so this part is left out: install one and see.")
            return True
        if done.returncode != 0:
            raise DragomanError("The pipeline failed.", code="demo.pipeline", reason=done.stderr[-400:])
        return self._compare(target, account)

    def _compare(self, target: str, account: Account) -> bool:
        from dragoman.pipeline.running import Flow
        from dragoman.pipeline.tables import open_table

        name = Flow(REQUESTS).table_name
        rows = open_table("delta", target, name).count()
        quarantined = open_table("delta", target, f"{name}_quarantine").count()
        emit_table(("table", "rows"), [(name, rows), (f"{name}_quarantine", quarantined)])
        return rows == account.handled + account.dead and quarantined == account.invalid

    def _look_around(self) -> None:
        registry = f"--registry {shlex.quote(f'sqlite://{self._folder}/registry.db')}"
        broker = f"--broker {shlex.quote(self._url)}"
        say(f"  dragoman registry show {REQUESTS}-value {registry}")
        say(f"  dragoman channel tail {QUOTES} {broker} {registry}")
        say(f"  dragoman channel dead list {REQUESTS} {broker}")
        if self._tables:
            say(f"  dragoman pipeline quarantine list --to {shlex.quote(str(self._folder / 'tables'))}")
