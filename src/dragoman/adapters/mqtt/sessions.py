"""All sessions that groups have for a channel: ended with the channel, and more of them when it grows."""

from __future__ import annotations

from dragoman.adapters.mqtt.channels import Declared, level, name_of
from dragoman.adapters.mqtt.connection import open_connection
from dragoman.adapters.mqtt.control import Control
from dragoman.adapters.mqtt.options import Options
from dragoman.adapters.mqtt.seats import TEMPORARY, Seat, Table, read_seat
from dragoman.adapters.mqtt.wire import Connect


async def _seats(options: Options, control: Control, channel: str) -> dict[str, dict[int, Seat]]:
    """By group, the seats that are written down."""
    place = f"{options.prefix}/groups"
    found: dict[str, dict[int, Seat]] = {}

    def tell(topic: str, payload: bytes) -> None:
        group, _, number = topic.removeprefix(f"{place}/").split("/")
        seat = read_seat(payload)
        if seat is not None and number.isdecimal():
            found.setdefault(name_of(group), {})[int(number)] = seat

    filter = f"{place}/+/{level(channel)}/+"
    watcher = object()
    try:
        await control.watch(filter, watcher, tell)
        await control.sync()
    finally:
        await control.unwatch(filter, watcher)
    return found


async def end_sessions(options: Options, control: Control, channel: str) -> None:
    """Of members that are there, too: they are told so by the loss of their connection."""
    for group, seats in (await _seats(options, control, channel)).items():
        table = Table(options.prefix, group, channel)
        for number in seats:
            # Whoever starts a session clean has ended the one before.
            await _visit(options, table.client(number), clean=True)
            await control.put(table.seat(number), b"")


async def add_seats(options: Options, control: Control, declared: Declared, number: int) -> None:
    """One for each group, with nobody on it yet."""
    channel = declared.channel.name
    for group, seats in (await _seats(options, control, channel)).items():
        table, example = Table(options.prefix, group, channel), next(iter(seats.values()))
        expiry = options.session_expiry if example.durable else TEMPORARY
        filters = declared.filters(group, number, example.sharing)
        await _visit(options, table.client(number), clean=False, expiry=expiry, wanted=filters.wanted)
        await control.put(table.seat(number), example._replace(member=None, before=None, kept=True).written())


async def _visit(
    options: Options, client: str, *, clean: bool, expiry: int = 0, wanted: tuple[str, ...] = ()
) -> None:
    greeting = Connect(
        client, clean, options.keep_alive, options.username, options.password, session_expiry=expiry
    )
    connection = await open_connection(options, greeting, lambda _: None, lambda _: None)
    try:
        for filter in wanted:
            await connection.subscribe(filter, options.qos)
    finally:
        await connection.close()
