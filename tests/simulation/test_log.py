"""The embedded log on a disk that fails: seeds, what once failed, and code that is broken on purpose."""

from __future__ import annotations

import errno
import logging
from collections.abc import Callable, Iterator, Sequence

import pytest

from dragoman.adapters.embedded.appender import Appender, _Tail
from dragoman.adapters.embedded.offsets import Offsets
from dragoman.adapters.embedded.reader import PartitionReader
from dragoman.adapters.embedded.segment import SegmentFile
from dragoman.testing.simulation import first_failure, shrink
from dragoman.testing.simulation.disk import Fault, Kill, PowerFailure, Process, Short
from dragoman.testing.simulation.log import (
    Append,
    Arm,
    Close,
    Cut,
    During,
    Event,
    Find,
    Flip,
    LogWorld,
    PowerCut,
    Read,
    Remove,
    Room,
    Sync,
    Tick,
)

SEEDS = 600


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Damage is logged: here there is much of it."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


def test_nothing_confirmed_is_lost_or_hidden() -> None:
    failure = first_failure(LogWorld(), range(SEEDS))
    assert failure is None, str(failure)


ONCE: dict[str, tuple[int, Sequence[Event]]] = {
    "a short write of the bounds": (
        259,
        [Arm(1, Short(980355393), 1, "pwrite"), Append(1, ((10, 5, 3, 4),))],
    ),
    "a writer whose segment was removed": (
        175,
        [Append(1, ((137,),)), Remove(51), Append(1, ((7,),))],
    ),
    "all segments were removed": (18, [Append(1, ((11, 27, 4, 13),)), Remove(86)]),
    "the last block is gone after a power failure": (
        9834,
        [Append(1, ((274,), (259, 65, 83, 111), (215, 206))), Close(1), PowerCut(1015244578), Remove(72)],
    ),
    "a damaged header before blocks that were never confirmed": (
        53,
        [
            Arm(1, PowerFailure(1033175336), 50),
            Append(1, ((7,), (10, 1, 21, 48))),
            Flip(32, 0.0736423707431596, 6),
            Append(1, ((10,),), 1000),
        ],
    ),
    "a torn seal, and a start by time": (
        5056,
        [
            Append(0, ((253, 0), (167,))),
            Append(0, ((207,),), 1000),
            Append(1, ((260,), (18,)), 5),
            PowerCut(191323084),
            Tick(100),
            Append(1, ((43, 51, 38, 48), (20, 58, 36, 48)), 5),
            Find(5),
        ],
    ),
    "the reserve cannot be given up": (
        2598,
        [
            Append(1, ((40,), (25, 11, 18, 24), (10,))),
            Arm(1, Fault(errno.EIO, 417668448), 0, "ftruncate"),
            Arm(1, Fault(errno.ENOSPC, 185420976), 0, "pwrite"),
            Append(1, ((128, 96, 188, 124), (18, 16), (207,)), 5),
        ],
    ),
    "an old segment of a writer was cut off, and another writer has died": (
        2388,
        [
            Append(0, ((34, 13),), 1000),
            Append(1, ((13, 17, 4, 16), (16, 18))),
            Cut(64, 0.07578511383591735),
            Arm(1, Kill(9176397), 50),
            Append(1, ((150, 158), (173,), (38,))),
            Append(1, ((216, 243, 22, 45), (213, 118, 295, 124))),
            Append(0, ((149,),)),
        ],
    ),
    "blocks of a dead writer are lost after they were delivered": (
        6070,
        [
            Append(1, ((260,), (267, 283), (298, 189, 202, 144)), 1000),
            Append(0, ((19,),)),
            Arm(1, Kill(269914638), 30),
            Append(1, ((253, 236), (220,)), 1000),
            Append(1, ((37,),)),
            Append(0, ((195, 7),)),
            Append(1, ((4, 7),)),
            PowerCut(439972674),
        ],
    ),
    "another writer's sync failed after an append was refused": (
        5760,
        [
            Arm(0, Fault(errno.EIO, 130232162), 0, "fsync"),
            Append(0, ((181, 218, 30, 247),)),
            Append(1, ((19,),), 1000),
            Arm(1, Fault(errno.EIO, 1021221653), 0, "pwrite"),
            Append(1, ((193, 25),)),
            Sync(0),
        ],
    ),
    "a sync after an append that was refused": (
        1612,
        [
            Room(2000),
            Append(1, ((8,),)),
            Append(1, ((56, 39, 19, 15), (21, 10, 9, 45)), 5),
            Append(0, ((13,),), 1000),
            Append(0, ((10, 10), (13,), (19,))),
            Append(1, ((2,),), 1000),
            Append(0, ((7,), (115,), (48, 175))),
            Append(1, ((17,),)),
            Append(1, ((19, 3),), 1000),
            Arm(0, PowerFailure(302405617), 8),
            Sync(1),
            Append(0, ((278, 115, 261, 168),)),
        ],
    ),
    "a sealed segment without messages": (
        10051,
        [
            Append(1, ((45,),), 5),
            Arm(0, PowerFailure(1014763683), 0),
            Append(0, ((16, 16, 17, 16),), 1000),
            Append(1, ((11, 36), (11, 49), (33,))),
            Append(1, ((18, 7, 9, 12),)),
            Arm(1, PowerFailure(870089923), 5),
            Append(1, ((34, 37), (32, 9), (8,))),
        ],
    ),
    "a sync of the bounds failed": (
        1910,
        [
            Append(0, ((12,),)),
            Append(1, ((52, 89, 240, 118),), 5),
            Append(0, ((45, 28),)),
            Append(0, ((5, 4, 16, 15),), 5),
            Append(1, ((40, 2), (24,)), 5),
            Arm(1, Fault(errno.EIO, 590465470), 0, "fsync"),
            Sync(1),
            Read(1, 3),
        ],
    ),
    "a damaged header before blocks of a dead writer, the last one torn": (
        10924,
        [
            Append(1, ((25,),)),
            Append(1, ((49,), (28,)), 5),
            Room(0),
            Append(0, ((112, 241), (38, 265, 176, 218))),
            During(0, 6, Append(0, ((4,),))),
            Room(None),
            Flip(95, 0.3214919120465666, 1),
            Arm(0, Kill(802148230), 50),
            Read(0, 100),
            Append(0, ((163, 103), (168, 157, 186, 199))),
        ],
    ),
    "an append is taken back half": (
        13235,
        [
            Arm(1, Fault(errno.EIO, 863103067), 2, "unlink"),
            Arm(1, Fault(errno.EIO, 623974104), 4, "pwrite"),
            Append(1, ((248, 264), (46, 89), (114, 146))),
        ],
    ),
    "damage behind a gap": (
        237,
        [
            Arm(1, PowerFailure(743118067), 1),
            Append(1, ((18,), (31, 46, 33, 0), (56,))),
            Append(1, ((27, 5, 48, 12),)),
            Arm(0, PowerFailure(166652367), 5),
            Append(0, ((242, 123, 166, 162),), 5),
            Append(1, ((8,),)),
            Append(1, ((38, 36),)),
            Append(1, ((36,),), 1000),
            Append(1, ((12, 6, 14, 16),)),
            Arm(1, PowerFailure(352469577), 5),
            Append(1, ((249, 250), (299,), (235,))),
        ],
    ),
}
"""The seed decides how the log is opened. Each of these found a fault, which was mended then."""


@pytest.mark.parametrize("what", ONCE)
def test_what_was_mended_stays_mended(what: str) -> None:
    LogWorld().run(*ONCE[what])


Break = Callable[[pytest.MonkeyPatch], None]


def _recovery_that_cuts_at_any_bad_block(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(SegmentFile, "next_sound", lambda *given: None)
    real = _Tail._walk

    def walk(self: _Tail, segment: SegmentFile, confirmed: int, *, index: bool) -> None:
        real(self, segment, 0, index=index)

    patch.setattr(_Tail, "_walk", walk)


def _sync_that_does_nothing(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(_Tail, "sync", lambda self: None)


def _a_failed_sync_that_is_forgotten(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Appender, "_sync", lambda self, tail: tail.sync())


def _names_that_are_not_synced(patch: pytest.MonkeyPatch) -> None:
    init = _Tail.__init__

    def named(self: _Tail, *given: object, **more: object) -> None:
        init(self, *given, **more)  # type: ignore[arg-type]
        self._named = True

    patch.setattr(_Tail, "__init__", named)


def _nothing_is_taken_back(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Appender, "_undo", lambda self, base, size: None)


def _damage_that_is_not_reported(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(PartitionReader, "_kept", lambda self, first, until: None)


def _offsets_that_are_given_out_again(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Appender, "_reserved", lambda self, end, count, *, wait: end)


def _reserved_offsets_that_are_not_synced(patch: pytest.MonkeyPatch) -> None:
    def sync(self: Offsets) -> None:
        self._synced = self._newest()

    patch.setattr(Offsets, "_sync", sync)


def _a_machine_that_seems_to_run_on(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Process, "boot_id", lambda self: b"boot")


@pytest.mark.parametrize(
    "broken",
    [
        _offsets_that_are_given_out_again,
        _reserved_offsets_that_are_not_synced,
        _a_machine_that_seems_to_run_on,
        _recovery_that_cuts_at_any_bad_block,
        _sync_that_does_nothing,
        _a_failed_sync_that_is_forgotten,
        _names_that_are_not_synced,
        _nothing_is_taken_back,
        _damage_that_is_not_reported,
    ],
)
def test_broken_code_is_found_and_shrinks_to_a_few_events(
    broken: Break, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken(monkeypatch)
    world = LogWorld()
    failure = first_failure(world, range(300))
    assert failure is not None
    shrunk = shrink(world, failure, tries_max=300)
    assert len(shrunk.events) <= 15
    with pytest.raises(type(shrunk.error)):
        world.run(shrunk.seed, shrunk.events)


def test_a_seed_does_the_same_each_time() -> None:
    from random import Random

    world = LogWorld()
    assert world.events(Random("x")) == world.events(Random("x"))
