"""The demo as a story, told while it happens, with an account at the end."""

from __future__ import annotations

import asyncio
import json
import shlex
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from dragoman.cli.demo.account import Account, Tables, keep_tables
from dragoman.cli.demo.endpoint import NAMES
from dragoman.cli.demo.letters import Letters
from dragoman.cli.demo.orchestrator import RESOURCE
from dragoman.cli.demo.places import loan_broker, model
from dragoman.cli.demo.processes import PATIENCE, Processes
from dragoman.cli.demo.versions import second_schema
from dragoman.cli.output import out, say
from dragoman.core.broker import Broker
from dragoman.core.errors import DragomanError
from dragoman.core.loading import BROKERS, load, scheme_of
from dragoman.core.message import Message
from dragoman.registry import connect

CORRUPT = 20
GATEWAY = """[[public]]
resource = "{resource}"
entity = "loan"
methods = ["process"]
retain = 600
expires = 600
"""


@dataclass(frozen=True, slots=True)
class Wishes:
    requests: int
    tables: bool
    broker: str | None
    keep: bool


class Story:
    def __init__(self, folder: Path, wishes: Wishes) -> None:
        self._folder = folder
        self._wishes = wishes
        self._broker_url = wishes.broker or f"embedded://{folder}/broker?lease=3"
        self._registry = f"sqlite://{folder}/registry.db"
        self._ledger = folder / "customers.log"
        folder.mkdir(parents=True, exist_ok=True)
        self._ledger.touch()

    def tell(self) -> bool:
        """Whether every message is accounted for."""
        say(f"Everything of this demo is in {self._folder}")
        environment = {"DRAGOMAN_BROKER": self._broker_url, "DRAGOMAN_REGISTRY": self._registry}
        with Processes(self._folder / "logs", environment) as processes:
            self._bring_to_model(processes)
            gateway, key = self._start(processes)
            account = asyncio.run(self._flow(processes, gateway, key))
            account.show()
            tables = keep_tables(processes, self._folder / "tables") if self._wishes.tables else None
            good = account.adds_up and self._fits(account, tables)
            if good:
                say("Every message is accounted for. Look around:")
                self._look_around(tables)
            if self._wishes.keep:
                self._stay()
        return good

    def _bring_to_model(self, processes: Processes) -> None:
        said = processes.run("model", "lint", str(model()))
        say(f"The model {model().name} is linted: {said.splitlines()[-1] if said else 'no findings'}")
        processes.run("model", "apply", str(model()))
        say("It is applied: channels made, contracts registered.")

    def _start(self, processes: Processes) -> tuple[str, str]:
        """Registry and gateway, then the endpoints."""
        config, store = self._folder / "gateway.toml", f"sqlite://{self._folder}/gateway.db"
        config.write_text(GATEWAY.format(resource=RESOURCE))
        made = processes.run("gateway", "keys", "create", "customers", "--store", store, "--json")
        processes.start(
            "serve",
            "dragoman.cli",
            "serve",
            *("--registry-port", "0", "--gateway-port", "0", "--config", str(config)),
            DRAGOMAN_SERVE_GATEWAY_STORE=store,
            DRAGOMAN_SERVE_GATEWAY_SECRET_FILE=str(self._folder / "gateway.key"),
        )
        registry = processes.wait_for("serve", r"Registry on (\S+) with")[1]
        gateway = processes.wait_for("serve", r"Gateway on (\S+)\. Stop")[1]
        say(f"Registry at {registry}, gateway at {gateway}.")
        for name in NAMES:
            self._endpoint(processes, name, "1", wait=False)
        self._orchestrator(processes, "1", wait=False)
        for name in (*NAMES, "orchestrator"):
            processes.wait_for(name, "ready")
        say(f"{len(NAMES)} endpoints of the model and an orchestrator run, each a process of its own.")
        return gateway, json.loads(made)["key"]

    def _endpoint(
        self, processes: Processes, name: str, version: str, label: str = "", *, wait: bool = True
    ) -> None:
        arguments = (self._broker_url, self._registry, name, version)
        processes.start(label or name, "dragoman.cli.demo.endpoint", *arguments)
        if wait:
            processes.wait_for(label or name, "ready")

    def _orchestrator(
        self, processes: Processes, version: str, label: str = "orchestrator", *, wait: bool = True
    ) -> None:
        processes.start(label, "dragoman.cli.demo.orchestrator", self._broker_url, self._registry, version)
        if wait:
            processes.wait_for(label, "ready")

    async def _flow(self, processes: Processes, gateway: str, key: str) -> Account:
        """Customers come; on the way a bank dies and comes back, a contract changes, rubbish arrives."""
        broker: Broker = load(BROKERS, scheme_of(self._broker_url))(self._broker_url)
        await broker.connect()
        count, before = self._wishes.requests, _kept(broker)
        scenes: list[tuple[float, Callable[[Processes, Broker], Awaitable[None]]]] = [
            (0.2, self._kill_bank),
            (0.35, self._revive_bank),
            (0.45, self._change_contract),
            (0.7, self._send_rubbish),
        ]
        columns = (TextColumn("  answered"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        try:
            async with Letters(broker) as letters:
                say(f"Customers drop off {count} loan requests at the gateway, and collect the answers.")
                arguments = (gateway, key, str(count), str(self._ledger))
                processes.start("customers", "dragoman.cli.demo.customers", *arguments)
                with Progress(*columns, console=out) as progress:
                    task = progress.add_task("answered", total=count)
                    for share, scene in scenes:
                        await self._until(processes, progress, task, letters, int(share * count))
                        await scene(processes, broker)
                    await self._until(processes, progress, task, letters, count)
                    await self._until_counted(letters)
                came = None if before is None else (_kept(broker) or 0) - before
                return Account(self._outcomes(), letters.counts, CORRUPT, came)
        finally:
            await broker.close()

    async def _until(
        self, processes: Processes, progress: Progress, task: TaskID, letters: Letters, wanted: int
    ) -> None:
        deadline = time.monotonic() + PATIENCE
        while (answered := len(self._outcomes())) < wanted:
            progress.update(task, completed=answered)
            await letters.look()
            processes.ended("customers")
            if time.monotonic() > deadline:
                raise DragomanError(
                    "The requests were not answered in time.", code="demo.slow", folder=self._folder
                )
            await asyncio.sleep(0.1)
        progress.update(task, completed=answered)

    async def _until_counted(self, letters: Letters) -> None:
        """Letters may come a moment after the last answer."""
        wanted = sum(outcome != "quoted" for outcome in self._outcomes().values()) + CORRUPT
        deadline = time.monotonic() + PATIENCE
        while letters.counts.total() < wanted and time.monotonic() < deadline:
            await letters.look()
            await asyncio.sleep(0.1)

    def _outcomes(self) -> dict[str, str]:
        """What each customer was told."""
        lines = self._ledger.read_text().splitlines(keepends=True)
        return dict(line.split() for line in lines if line.endswith("\n"))

    async def _kill_bank(self, processes: Processes, broker: Broker) -> None:
        processes.kill("Bank2")
        say("  Bank2 is killed (SIGKILL). The loan broker waits a second for it, then takes other quotes.")

    async def _revive_bank(self, processes: Processes, broker: Broker) -> None:
        await asyncio.to_thread(self._endpoint, processes, "Bank2", "1")
        say("  Bank2 is back.")

    async def _change_contract(self, processes: Processes, broker: Broker) -> None:
        channel = loan_broker("channels").LOAN_REQUEST
        contract = f"{channel}-value"
        registry = connect(self._registry)
        try:
            verdict = await registry.check(contract, second_schema(with_default=False))
            reason = verdict.reasons[0]
            say(f"  Version 2 of {contract}, with a currency, is refused: {reason.message}")
            say(f"  A message that it could not read: {reason.counterexample}")
            made = await registry.register(contract, second_schema(with_default=True))
            order = (await registry.contract(contract)).update_order
        finally:
            await registry.close()
        say(f"  With a default it becomes version {made.version}. Who goes first: {order}.")
        await asyncio.to_thread(self._endpoint, processes, "LoanBroker", "2", "LoanBroker-2")
        await asyncio.to_thread(processes.stop, "LoanBroker")
        await asyncio.to_thread(self._orchestrator, processes, "2", "orchestrator-2")
        await asyncio.to_thread(processes.stop, "orchestrator")
        say("  The loan broker, then the orchestrator, run with it; requests kept coming meanwhile.")

    async def _send_rubbish(self, processes: Processes, broker: Broker) -> None:
        channel = loan_broker("channels").LOAN_REQUEST
        torn, foreign = b"\x00\x00\x00\x00\x01\x02", b"no frame at all"
        await broker.publish([Message(channel, (torn, foreign)[number % 2]) for number in range(CORRUPT)])
        say(f"  {CORRUPT} corrupt messages arrive among the requests.")

    def _fits(self, account: Account, tables: Tables | None) -> bool:
        """Whether the tables hold what the account says."""
        if tables is None or self._wishes.broker is not None:
            return True
        aside = account.letters["expired"] + account.letters["invalid"]
        return tables.rows + tables.quarantined == account.in_channel and tables.quarantined >= aside

    def _look_around(self, tables: Tables | None) -> None:
        registry, broker = shlex.quote(self._registry), shlex.quote(self._broker_url)
        channels = loan_broker("channels")
        say(f"  dragoman registry show {channels.LOAN_REQUEST}-value --registry {registry}")
        say(f"  dragoman model diagram {shlex.quote(str(model()))} -o {self._folder}/loan-broker.svg")
        say(f"  dragoman channel tail {channels.UNDELIVERABLE} --broker {broker} --registry {registry}")
        if tables is not None:
            place = shlex.quote(str(self._folder / "tables"))
            say(f"  dragoman pipeline quarantine list --to {place} --table loan_broker_request")

    def _stay(self) -> None:
        say("All of it goes on running. Stop with Ctrl-C.")
        try:
            while True:
                time.sleep(3600)
        except KeyboardInterrupt:
            say("Stopping.")


def _kept(broker: Broker) -> int | None:
    """How many requests the broker keeps, if it keeps any."""
    if not broker.capabilities.replay:
        return None
    log = broker.log()
    try:
        return sum(
            end - start for start, end in log.partitions(loan_broker("channels").LOAN_REQUEST).values()
        )
    finally:
        log.close()
