"""What disturbs a run. A nemesis strikes some times, evenly spread over the messages, and each time heals.

Several may work in one run: each looks after its own strikes.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import random
import shutil
import signal
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, Protocol

from dragoman.testing.proxy import Proxy
from tests.services.faketime import SteppedClock
from tests.services.server import Server, ServiceUnavailable

END_TIMEOUT_S = 60.0
BUSY_WITHIN_S = 0.5
"""So long a member is looked for that is at work at the moment in which it is disturbed."""


class Member(Protocol):
    """A process of the run. It is started again by the conductor when it has ended."""

    name: str
    kind: str
    process: subprocess.Popen[bytes] | None
    environment: dict[str, str]

    @property
    def has_worked(self) -> bool:
        """Whether it runs, and has done something since it was ready.

        A process that is killed before proves nothing. On a busy machine none would ever get further.
        """

    @property
    def is_busy(self) -> bool:
        """Whether a handler of it, or its publishing, is at work at this moment."""


@dataclass
class Stage:
    """What there is to be disturbed."""

    folder: Path
    members: Sequence[Member]
    server: Server | None
    proxy: Proxy | None = None
    random: random.Random = field(default_factory=lambda: random.Random(1))
    server_is_away: bool = False

    def victim(self, kind: str = "") -> Member | None:
        """A member that is at work, or at least has worked."""
        members = [each for each in self.members if each.kind.startswith(kind)]
        deadline = time.monotonic() + BUSY_WITHIN_S
        while time.monotonic() < deadline:
            self.random.shuffle(members)
            for each in members:
                if each.is_busy:
                    return each
        return next((each for each in members if each.has_worked), None)


class Nemesis(ABC):
    name: ClassVar[str]
    title: ClassVar[str]
    """For the page of guarantees."""
    strikes: int
    hold_s: float = 0.0
    """How long a strike lasts until it is healed."""
    cuts_network = False
    """Every other member goes to the server through a proxy."""
    quick_leases = False
    """The brokers notice after a few seconds that a member hangs."""

    def __init__(self, strikes: int, hold_s: float = 0.0) -> None:
        self.strikes = strikes
        self.hold_s = hold_s

    def suits(self, scheme: str) -> bool:
        """Whether a run on this broker has what it disturbs."""
        return True

    def prepare(self, stage: Stage) -> None:  # noqa: B027 -- most need nothing
        """Before the first member is started. Raises ``ServiceUnavailable`` if this machine cannot do it."""

    @abstractmethod
    def strike(self, stage: Stage) -> bool:
        """``False`` if there is nothing to disturb at the moment."""

    def heal(self, stage: Stage) -> None:  # noqa: B027 -- what was killed is started again anyway
        """After ``hold_s``, and at the latest when the run ends."""

    def finish(self, stage: Stage) -> None:  # noqa: B027
        """After the last member has ended."""


class KillMember(Nemesis):
    """SIGKILL to a producer or a consumer."""

    name = "kill-member"
    title = "A producer or consumer is killed (SIGKILL)"
    quick_leases = True

    def strike(self, stage: Stage) -> bool:
        victim = stage.victim()
        if victim is None or victim.process is None:
            return False
        victim.process.kill()
        victim.process.wait()
        return True


class StopMember(Nemesis):
    """SIGSTOP to a consumer for longer than its lease, then SIGCONT: a former owner that does not know it."""

    name = "stop-member"
    title = "A consumer is stopped for longer than its lease (SIGSTOP, SIGCONT)"
    quick_leases = True
    _stopped: subprocess.Popen[bytes] | None = None

    def strike(self, stage: Stage) -> bool:
        victim = stage.victim("consumer")
        if victim is None or victim.process is None:
            return False
        self._stopped = victim.process
        self._stopped.send_signal(signal.SIGSTOP)
        return True

    def heal(self, stage: Stage) -> None:
        if self._stopped is not None:
            self._stopped.send_signal(signal.SIGCONT)
            self._stopped = None


class _ServerNemesis(Nemesis):
    quick_leases = True

    def suits(self, scheme: str) -> bool:
        return scheme != "embedded"


class KillServer(_ServerNemesis):
    """SIGKILL to the server, which is started again at once."""

    name = "kill-server"
    title = "The server is killed and started again (SIGKILL)"

    def strike(self, stage: Stage) -> bool:
        if stage.server is None or stage.server_is_away:
            return False
        stage.server.kill()
        stage.server.restart()
        return True


class StopServer(_ServerNemesis):
    """SIGSTOP to the server for longer than all leases, then SIGCONT."""

    name = "stop-server"
    title = "The server is stopped (SIGSTOP, SIGCONT)"

    def strike(self, stage: Stage) -> bool:
        if stage.server is None or stage.server_is_away:
            return False
        stage.server.pause()
        stage.server_is_away = True
        return True

    def heal(self, stage: Stage) -> None:
        if stage.server is not None and stage.server_is_away:
            stage.server.resume()
            stage.server_is_away = False


class CutNetwork(_ServerNemesis):
    """The network of every other member is gone: connections end, the next time they only fall silent."""

    name = "cut-network"
    title = "Some members lose the network: connections end, or fall silent"
    cuts_network = True

    def __init__(self, strikes: int, hold_s: float = 0.0) -> None:
        super().__init__(strikes, hold_s)
        self._ways = itertools.cycle((Proxy.stall, Proxy.cut))

    def strike(self, stage: Stage) -> bool:
        if stage.proxy is None:
            return False
        next(self._ways)(stage.proxy)
        return True

    def heal(self, stage: Stage) -> None:
        if stage.proxy is not None:
            stage.proxy.restore()


class SlowNetwork(_ServerNemesis):
    """All that every other member sends and receives comes later."""

    name = "slow-network"
    title = "Some members have a slow network"
    cuts_network = True
    quick_leases = False
    delay_s = 0.1

    def strike(self, stage: Stage) -> bool:
        if stage.proxy is None:
            return False
        stage.proxy.slow(self.delay_s)
        return True

    def heal(self, stage: Stage) -> None:
        if stage.proxy is not None:
            stage.proxy.restore()


class StepClock(Nemesis):
    """The wall clocks of single members are set forward and back, by up to a day."""

    name = "step-clock"
    title = "The clocks of members are set by an hour or a day"
    steps_s = (3600, -3600, 86_400, -86_400, 0)

    def prepare(self, stage: Stage) -> None:
        self._clocks = {
            each.name: SteppedClock(stage.folder / f"{each.name}.clock") for each in stage.members
        }
        self._turns: Iterator[tuple[str, int]] = zip(
            itertools.cycle(self._clocks), itertools.cycle(self.steps_s), strict=False
        )
        for each in stage.members:
            each.environment.update(self._clocks[each.name].environment)

    def strike(self, stage: Stage) -> bool:
        name, seconds = next(self._turns)
        self._clocks[name].step(seconds)
        return True


class FillDisk(Nemesis):
    """The disk of the embedded broker is full. It is a file system of its own, in memory."""

    name = "fill-disk"
    title = "The disk is full"
    size_bytes = 64 << 20

    def suits(self, scheme: str) -> bool:
        return scheme == "embedded"

    def prepare(self, stage: Stage) -> None:
        self._disk = stage.folder / "broker"
        self._disk.mkdir()
        program = shutil.which("mount")
        if program is None or os.geteuid() != 0:
            raise ServiceUnavailable("Only root can mount a small disk.")
        done = subprocess.run(
            [program, "-t", "tmpfs", "-o", f"size={self.size_bytes}", "tmpfs", str(self._disk)],
            capture_output=True,
            text=True,
        )
        if done.returncode:
            raise ServiceUnavailable(f"A small disk cannot be mounted: {done.stderr.strip()}")

    def strike(self, stage: Stage) -> bool:
        with contextlib.suppress(OSError), self._filler.open("wb", buffering=0) as file:
            while file.write(bytes(4096)):
                pass
        return True

    def heal(self, stage: Stage) -> None:
        self._filler.unlink(missing_ok=True)

    def finish(self, stage: Stage) -> None:
        subprocess.run(["umount", "--lazy", str(self._disk)], check=True)

    @property
    def _filler(self) -> Path:
        return self._disk / "filler"


class RollingRestart(Nemesis):
    """Consumers are asked to end by SIGTERM, one after the other. Each is started again when it has ended."""

    name = "rolling-restart"
    title = "Rolling restart of the consumers (SIGTERM), four handlers at once"

    def __init__(self, strikes: int, hold_s: float = 0.0) -> None:
        super().__init__(strikes, hold_s)
        self._turn = 0

    def strike(self, stage: Stage) -> bool:
        consumers = [each for each in stage.members if each.kind == "consumer"]
        victim = consumers[self._turn % len(consumers)]
        # The others have to work already, as after a deployment that waits until each new one is ready.
        if victim.process is None or not all(each.has_worked for each in consumers):
            return False
        self._turn += 1
        victim.process.terminate()
        code = victim.process.wait(END_TIMEOUT_S)
        if code:
            raise RuntimeError(f"{victim.name} ended with {code} after SIGTERM.")
        return True


class Schedule:
    """When a nemesis strikes: each time that so many more of all messages are handled."""

    def __init__(self, nemesis: Nemesis, messages: int) -> None:
        self.nemesis = nemesis
        self.strikes = 0
        self.is_striking = False
        self._heal_at = 0.0
        self._marks = [messages * turn // (nemesis.strikes + 1) for turn in range(1, nemesis.strikes + 1)]

    def step(self, stage: Stage, handled: int) -> None:
        if self.is_striking:
            if time.monotonic() >= self._heal_at:
                self.heal(stage)
        elif self._is_due(handled) and self.nemesis.strike(stage):
            self.strikes += 1
            self.is_striking = True
            self._heal_at = time.monotonic() + self.nemesis.hold_s

    def _is_due(self, handled: int) -> bool:
        return self.strikes < len(self._marks) and handled >= self._marks[self.strikes]

    def heal(self, stage: Stage) -> None:
        if self.is_striking:
            self.nemesis.heal(stage)
            self.is_striking = False
