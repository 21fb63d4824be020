"""Has mosquitto save its database, and knows when it has.

Mosquitto confirms a message before it is on the disk. It reads one packet of each connection in turn, and
after each turn saves, if there were as many changes since the last save as its ``autosave_interval`` says.
Retained messages are changes, messages that it sends on at once are not. So as many retained messages go
behind what is to be saved; the answer to what is sent after them comes after the save.
"""

from __future__ import annotations

import asyncio

from dragoman.adapters.mqtt.connection import Connection, Outgoing
from dragoman.adapters.mqtt.options import Options
from dragoman.adapters.mqtt.wire import V5, properties, publish, text
from dragoman.core.errors import DragomanError


class Saver:
    """One save at a time, and each for all who asked before it began."""

    def __init__(self, options: Options, connection: Connection) -> None:
        self.connection = connection
        topic = text(f"{options.prefix}/saved")
        extra = properties({}) if options.version == V5 else b""
        self._changes = publish(topic, b"1", 0, True, 0, extra) * (options.autosave_interval - 1)
        self._last = Outgoing(topic, b"1", 1, True, extra)
        self._asked: asyncio.Future[None] | None = None
        self._saving: asyncio.Task[None] | None = None

    def ask(self) -> asyncio.Future[None]:
        """Done when all is saved that this connection has sent by now, and all that others had confirmed."""
        if self._asked is None:
            self._asked = asyncio.get_running_loop().create_future()
            if self._saving is None or self._saving.done():
                self._saving = asyncio.create_task(self._save())
        return self._asked

    async def _save(self) -> None:
        while (asked := self._asked) is not None:
            self._asked = None
            try:
                self.connection.write(self._changes)
                await self.connection.publish((self._last,))
                # The last one is confirmed before the save that it causes, this is answered after it.
                await self.connection.round_trip()
            except DragomanError as error:
                asked.set_exception(error)
                # Not everybody who asked still waits.
                asked.exception()
            else:
                asked.set_result(None)
