"""How a group comes to be on a channel: who was first says where it starts and how it shares.

A durable group is written into the catalog. A temporary one has a charter: a queue with one record, which the
server removes with the group. Both are read and written behind the group's door, one member at a time.
"""

from __future__ import annotations

import json
from dataclasses import replace
from uuid import uuid4

from dragoman.adapters.rabbitmq import names, positions, streams
from dragoman.adapters.rabbitmq.catalog import Catalog, Entry, GroupEntry
from dragoman.adapters.rabbitmq.link import Link
from dragoman.core.broker import Sharing, Start, Subscription
from dragoman.core.partitioning import check_company, check_durability, start_at_offset


async def join_or_found(
    link: Link, catalog: Catalog, wanted: Subscription, entry: Entry, others: int
) -> GroupEntry:
    """The group as it is, or as this member makes it. Raises where the two do not fit."""
    channel, group = entry.channel.name, wanted.group
    known = entry.groups.get(group)
    if known is None and others:
        known = await _charter(link, entry, group)
    if known is not None:
        if others:
            check_company(wanted, [(known.sharing, [channel])])
        check_durability(wanted, known.durable)
        if known.sharing is wanted.sharing:
            return known
        changed = replace(known, sharing=wanted.sharing)
        await catalog.record_group(channel, group, changed)
        return changed
    starts = await _starts(link, entry, wanted.start)
    made = GroupEntry(starts, wanted.sharing, wanted.durable, "" if wanted.durable else uuid4().hex[:12])
    if wanted.durable:
        await catalog.record_group(channel, group, made)
    else:
        await _write_charter(link, entry, group, made)
    return made


async def _charter(link: Link, entry: Entry, group: str) -> GroupEntry | None:
    """Of a temporary group that has members, on this channel and not on one of its name before it."""
    record = await positions.load(link, names.charter(entry.channel.name, group), temporary=True)
    found = json.loads(record) if record else {}
    if found.get("id") != entry.id:
        return None
    return GroupEntry(found["starts"], Sharing(found["sharing"]), False, found["life"])


async def _write_charter(link: Link, entry: Entry, group: str, made: GroupEntry) -> None:
    queue = names.charter(entry.channel.name, group)
    await positions.renew(link, queue)
    record = {"id": entry.id, "starts": made.starts, "sharing": made.sharing, "life": made.life}
    async with link.borrowed(confirms=True) as pipe:
        await pipe.save(queue, json.dumps(record).encode())


async def _starts(link: Link, entry: Entry, start: Start) -> list[int]:
    """Where a group that is new to the channel starts in each partition."""
    channel = entry.channel.name
    partitions = [names.stream(channel, number) for number in range(entry.channel.partitions)]
    if isinstance(start, str):
        latest = start == "latest"
        return [await streams.end(link, stream) if latest else 0 for stream in partitions]
    if isinstance(start, int):
        return [await streams.offset_at(link, stream, start) for stream in partitions]
    return start_at_offset(start, channel, [await streams.bounds(link, stream) for stream in partitions])
