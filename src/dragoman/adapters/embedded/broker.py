"""The embedded broker: a folder that the processes of one machine share."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Coroutine, Mapping, Sequence
from typing import Any

from dragoman.adapters.embedded import channels, groups
from dragoman.adapters.embedded.bell import Bell
from dragoman.adapters.embedded.channels import ChannelFiles
from dragoman.adapters.embedded.database import Database, open_database
from dragoman.adapters.embedded.delayed import NEXT_DUE, bring_in, postpone
from dragoman.adapters.embedded.errors import DiskFull, disk_errors
from dragoman.adapters.embedded.log import EmbeddedLogReader
from dragoman.adapters.embedded.membership import Membership
from dragoman.adapters.embedded.options import options_of
from dragoman.adapters.embedded.publisher import append, append_now, batches
from dragoman.adapters.embedded.receiver import EmbeddedReceiver
from dragoman.adapters.embedded.reserve import Reserve
from dragoman.adapters.embedded.skipping import damage_ahead, skip
from dragoman.core.broker import (
    Acknowledgement,
    Capabilities,
    DamagedRange,
    Lag,
    Ordering,
    Sharing,
    Subscription,
    check_subscription,
)
from dragoman.core.channel import Channel
from dragoman.core.ending import end
from dragoman.core.errors import BrokerUnavailable, ConfigurationError
from dragoman.core.message import Message, Position
from dragoman.core.options import refuse_options
from dragoman.core.partitioning import start_at_offset

log = logging.getLogger("dragoman.embedded")

SYNC_EVERY = 1.0
BREATHER = 256
"""After so many messages a publisher lets the other tasks of its loop run."""


class EmbeddedBroker:
    """``embedded://path``: durable, for any number of processes on one machine, without a server.

    Payloads lie in append-only segment files, one folder per partition; groups, leases and delayed messages
    in SQLite. ``embedded://`` alone is the folder ``.dragoman``. Options: see ``Options``.

    What ``publish`` returned for is with the operating system: no kill of any process loses it. ``fsync``
    says whether a power failure may: with ``batch``, the default, the last second; with ``always`` nothing,
    and a publish waits for the disk, some milliseconds each time.

    Order: a partition's messages are delivered in the order of their offsets. ``release`` without a delay
    keeps it: the message and those in flight behind it come again, in order. ``release`` with a delay sets
    the message aside: the others go on at once, and it comes back out of order when it is due. Only the
    message that was named counts an attempt, not those given back with it. Messages published with a delay
    enter the log when they are due and any process has a receiver or their publisher open, else when the
    next one connects; they are ordered as of then.
    """

    capabilities = Capabilities(
        durable=True,
        groups=True,
        ordering=Ordering.PARTITION,
        acknowledgement=Acknowledgement.CUMULATIVE,
        replay=True,
        new_groups_see_history=True,
        headers=True,
        keys=True,
        delayed_delivery=True,
        delivery_count=True,
        start_by_time=True,
        lag=True,
        sharing=frozenset(Sharing),
        temporary_groups=True,
        start_by_offset=True,
    )

    def __init__(self, url: str = "embedded://") -> None:
        self.url = url
        self._options = options_of(url)
        self._connected: Database | None = None
        self._reserve: Reserve | None = None
        self._open: dict[str, ChannelFiles] = {}
        self._opening = asyncio.Lock()
        self._bell = Bell()
        self._receivers: list[EmbeddedReceiver] = []
        self._background: set[asyncio.Task[None]] = set()
        self._sync_due = False
        self._since_breather = 0

    @property
    def _database(self) -> Database:
        if self._connected is None:
            raise BrokerUnavailable("The embedded broker is not connected.", next="Call connect() first.")
        return self._connected

    async def connect(self) -> None:
        if self._connected is not None:
            return
        connection = await asyncio.to_thread(open_database, self._options.root, self._options.fsync)
        with contextlib.suppress(OSError):  # Without a reserve, a full disk cannot be read: that is all.
            self._reserve = Reserve(self._options.root)
            self._reserve.take()
        self._connected = Database(connection, self._reserve)
        await self._bring_in_due()

    async def close(self) -> None:
        if self._connected is None:
            return
        for receiver in self._receivers:
            await receiver.close()
        self._receivers.clear()
        await end(*self._background)
        try:
            if self._options.fsync != "never":
                await asyncio.to_thread(self._settle)
        finally:
            for files in self._open.values():
                files.close()
            self._open.clear()
            self._bell.close()
            await self._connected.close()
            self._connected = None
            if self._reserve is not None:
                self._reserve.close()
                self._reserve = None

    async def publish(self, messages: Sequence[Message], delay: float = 0.0) -> Sequence[Position | None]:
        files = {name: await self._files(name) for name in {message.channel for message in messages}}
        if delay > 0:
            due = time.time() + delay
            for batch in batches(messages, files):
                # What could not be appended later is refused now.
                batch.drafts(0)
            self._require_room()
            rows = [(files[message.channel].id, message) for message in messages]
            await self._database.write(postpone(rows, due))
            self._later(self._bring_in_at(due))
            return [None] * len(messages)
        positions: list[Position | None] = [None] * len(messages)
        for batch in batches(messages, files):
            found = await append(batch, in_thread=self._options.fsync == "always")
            for index, position in zip(batch.indexes, found, strict=True):
                positions[index] = position
        self._housekeeping(files)
        self._since_breather += len(messages)
        if self._since_breather >= BREATHER:
            self._since_breather = 0
            await asyncio.sleep(0)
        return positions

    def _require_room(self) -> None:
        """Messages that wait in the database take room, too."""
        if self._reserve is not None:
            with disk_errors(self._options.root):
                self._reserve.take()

    async def _files(self, name: str) -> ChannelFiles:
        """The channel's open files. A channel deleted and made anew by another process has new ones."""
        database = self._database
        found = self._open.get(name)
        if found is not None and found.bounds.partitions:
            return found
        async with self._opening:
            found = self._open.get(name)
            if found is not None:
                if found.bounds.partitions:
                    return found
                self._open.pop(name).close()
            rows = await database.read("SELECT id, partitions FROM channel WHERE name = ?", (name,))
            if not rows:
                raise channels.not_found(name)
            id, partitions = rows[0]
            # Read before the log is: what groups have seen was in the log.
            known: dict[int, int] = dict(await database.read(groups.REACHED, (id,)))
            files = ChannelFiles(self._options.root, id, name, self._options, self._reserve, known)
            if files.bounds.partitions < partitions:
                await self._grow(files, partitions)
            try:
                await asyncio.to_thread(files.recover)
            except BaseException:
                files.close()
                raise
            self._open[name] = files
            return files

    async def _grow(self, files: ChannelFiles, partitions: int) -> None:
        sync = self._options.fsync != "never"
        await self._database.write(lambda _: channels.make_folders(files.folder, partitions, sync=sync))

    def _housekeeping(self, files: dict[str, ChannelFiles]) -> None:
        if self._options.fsync != "never" and not self._sync_due:
            self._sync_due = True
            self._later(self._sync_soon())
        now = time.monotonic()
        for one in files.values():
            if now >= one.trim_at:
                one.trim_at = now + 60.0
                self._later(self._trim(one))

    def _later(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._background.add(task)
        task.add_done_callback(self._forget)

    def _forget(self, task: asyncio.Task[None]) -> None:
        """The work is not waited for. A channel may be deleted under it, and most of it is tried again later.

        A failed sync is not: the next publish reports it.
        """
        self._background.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.warning("Work in the background failed: %s", error)

    async def _sync_soon(self) -> None:
        await asyncio.sleep(SYNC_EVERY)
        self._sync_due = False
        await asyncio.to_thread(self._sync)

    def _settle(self) -> None:
        self._sync()
        for files in list(self._open.values()):
            files.settle()

    def _sync(self) -> None:
        failed = None
        for files in list(self._open.values()):
            try:
                files.sync()
            except BrokerUnavailable as error:
                failed = error
        if failed is not None:
            raise failed

    async def _trim(self, files: ChannelFiles) -> None:
        rows = await self._database.read("SELECT retention FROM channel WHERE id = ?", (files.id,))
        retention = rows[0][0] if rows else None
        if retention is None:
            return
        files.trim_at = time.monotonic() + min(60.0, max(1.0, retention / 10))
        await asyncio.to_thread(files.drop_before, int((time.time() - retention) * 1000))

    async def _bring_in_at(self, due: float) -> None:
        await asyncio.sleep(max(0.0, due - time.time()))
        await self._bring_in_due()

    async def _bring_in_due(self) -> None:
        """Append the delayed messages whose time has come. If the disk is full, they wait in the database."""
        try:
            await self._bring_in_all_due()
        except DiskFull as error:
            log.warning("Delayed messages that are due have to wait: %s", error)

    async def _bring_in_all_due(self) -> None:
        while rows := await self._database.read(NEXT_DUE):
            if rows[0][0] > time.time():
                return
            names = await self._database.read(
                "SELECT DISTINCT name FROM delayed JOIN channel ON channel.id = delayed.channel"
            )
            files = {name: await self._files(name) for (name,) in names}

            def append_all(messages: list[Message], files: dict[str, ChannelFiles] = files) -> None:
                for batch in batches(messages, files):
                    append_now(batch)

            ids = [one.id for one in files.values()]
            if not await self._database.write(bring_in(time.time(), ids, append_all)):
                return

    async def subscribe(self, subscription: Subscription) -> EmbeddedReceiver:
        check_subscription(subscription, self.capabilities, "embedded")
        refuse_options(subscription)
        try:
            return await self._subscribe(subscription)
        except DiskFull:
            # The reserve has been given up by now, so there may be room for the group.
            return await self._subscribe(subscription)

    async def _subscribe(self, subscription: Subscription) -> EmbeddedReceiver:
        database = self._database
        files = [await self._files(name) for name in subscription.channels]
        starts = {one.id: await self._starts(one, subscription) for one in files}
        membership = Membership(self._options, subscription, files)

        def work(connection: Any) -> None:
            membership.admit(connection)
            for id, positions in starts.items():
                groups.open_shares(connection, subscription.group, id, positions)
            membership.join(connection)

        try:
            await database.write(work)
        except BaseException:
            membership.stop()
            raise
        receiver = EmbeddedReceiver(database, membership, files, self._bell, self._bring_in_due)
        self._receivers = [one for one in self._receivers if not one.closed]
        self._receivers.append(receiver)
        return receiver

    async def _starts(self, files: ChannelFiles, subscription: Subscription) -> list[int]:
        """Where a group that is new to the channel starts in each partition."""
        bounds = files.bounds.all()
        if subscription.start == "earliest":
            return [start for start, _ in bounds]
        if subscription.start == "latest":
            return [end for _, end in bounds]
        if isinstance(subscription.start, Mapping):
            return start_at_offset(subscription.start, files.name, bounds)
        reader, moment = self.log(), subscription.start
        try:
            return [
                await asyncio.to_thread(reader.offset_at, files.name, number, moment)
                for number in range(len(bounds))
            ]
        finally:
            reader.close()

    async def create(self, channel: Channel) -> bool:
        sync = self._options.fsync != "never"
        return await self._database.write(channels.create_channel(self._options.root, channel, sync=sync))

    async def describe(self, channel: str) -> Channel:
        rows = await self._database.read(f"SELECT {channels.COLUMNS} FROM channel WHERE name = ?", (channel,))  # noqa: S608
        if not rows:
            raise channels.not_found(channel)
        return channels.channel_of(rows[0])

    async def alter(self, channel: Channel) -> None:
        await self._database.write(channels.alter_channel(channel))
        files = await self._files(channel.name)
        await self._grow(files, channel.partitions)
        files.trim_at = 0.0
        await self._trim(files)

    async def delete(self, channel: str) -> None:
        """A channel whose files are missing or cannot be opened can be given up, too."""
        files: ChannelFiles | None
        try:
            files = await self._files(channel)
        except (channels.FilesMissing, BrokerUnavailable):
            files = None
        id, partitions = await self._database.write(channels.delete_channel(self._options.root, channel))
        if files is None:
            await asyncio.to_thread(channels.remove_folder, self._options.root, id)
            return
        await asyncio.to_thread(channels.remove_files, files, partitions)
        self._open.pop(channel, None)
        files.close()

    async def channels(self) -> Sequence[str]:
        return [name for (name,) in await self._database.read("SELECT name FROM channel ORDER BY name")]

    async def lag(self, channel: str, group: str | None = None) -> Sequence[Lag]:
        files = await self._files(channel)
        rows = await self._database.read(
            'SELECT team, partition, min(position, coalesce((SELECT min("offset") FROM aside'
            " WHERE aside.team = share.team AND aside.channel = share.channel"
            " AND aside.partition = share.partition), position))"
            " FROM share WHERE channel = ?1 AND (?2 IS NULL OR team = ?2) ORDER BY team, partition",
            (files.id, group),
        )
        bounds = dict(enumerate(files.bounds.all()))
        found = []
        for team, partition, committed in rows:
            start, end = bounds.get(partition, (0, 0))
            found.append(Lag(team, channel, partition, max(committed, start), end))
        return found

    async def damage(self, channel: str, group: str) -> Sequence[DamagedRange]:
        files, partitions = await self._partitions_of(channel, group)
        progress = await self._database.write(
            lambda connection: [groups.load(connection, group, (files.id, number)) for number in partitions]
        )
        return [
            each
            for number, one in zip(partitions, progress, strict=True)
            for each in (await asyncio.to_thread(damage_ahead, files, number, one))[0]
        ]

    async def skip_damage(self, channel: str, group: str) -> Sequence[DamagedRange]:
        files, partitions = await self._partitions_of(channel, group)
        return await self._database.write(
            lambda connection: [
                each for number in partitions for each in skip(connection, files, group, number)
            ]
        )

    async def _partitions_of(self, channel: str, group: str) -> tuple[ChannelFiles, list[int]]:
        files = await self._files(channel)
        rows = await self._database.read(
            "SELECT partition FROM share WHERE team = ? AND channel = ? ORDER BY partition", (group, files.id)
        )
        if not rows:
            raise ConfigurationError(
                f"The group {group!r} does not read this channel.",
                next=f"See which groups do: dragoman channel lag {channel}",
                channel=channel,
            )
        return files, [number for (number,) in rows]

    def log(self) -> EmbeddedLogReader:
        return EmbeddedLogReader(self._options.root, self._options.fsync)
