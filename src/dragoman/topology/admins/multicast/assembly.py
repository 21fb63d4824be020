"""Messages from pieces that may be lost, doubled, out of order, or a stranger's invention."""

from __future__ import annotations

from dragoman.topology.admins.multicast.datagram import Datagram

MOST_PARTIAL = 64
"""Messages that one sender may have begun. The oldest is given up; its number counts as missing."""


class Partial:
    __slots__ = ("count", "pieces", "size", "total")

    def __init__(self, total: int, count: int) -> None:
        self.total = total
        self.count = count
        self.pieces: dict[int, bytes] = {}
        self.size = 0


class Assembly:
    """The unfinished messages of one sender. Holds ``largest * MOST_PARTIAL`` bytes at most."""

    __slots__ = ("_largest", "_partial")

    def __init__(self, largest: int) -> None:
        self._largest = largest
        self._partial: dict[int, Partial] = {}

    def add(self, datagram: Datagram) -> bytes | None:
        """The whole message, if this was the last piece that lacked."""
        if datagram.total > self._largest:
            return None
        if datagram.pieces == 1:
            return datagram.piece if len(datagram.piece) == datagram.total else None
        partial = self._of(datagram)
        if (partial.total, partial.count) != (datagram.total, datagram.pieces):
            return None
        if datagram.number in partial.pieces or not datagram.piece:
            return None
        if partial.size + len(datagram.piece) > partial.total:
            return None
        partial.pieces[datagram.number] = datagram.piece
        partial.size += len(datagram.piece)
        if len(partial.pieces) < partial.count:
            return None
        del self._partial[datagram.sequence]
        if partial.size != partial.total:
            return None
        return b"".join(partial.pieces[index] for index in range(partial.count))

    def _of(self, datagram: Datagram) -> Partial:
        partial = self._partial.get(datagram.sequence)
        if partial is None:
            if len(self._partial) >= MOST_PARTIAL:
                del self._partial[next(iter(self._partial))]
            partial = self._partial[datagram.sequence] = Partial(datagram.total, datagram.pieces)
        return partial
