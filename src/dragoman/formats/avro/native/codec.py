"""A native codec in front of the Python codec, which does what the native one leaves."""

from __future__ import annotations

from dataclasses import dataclass

from dragoman.core.format import Codec
from dragoman.formats.avro.native.engine import Decoder, Encoder, Reader, Writer
from dragoman.formats.avro.native.reading import plan_reader
from dragoman.formats.avro.native.writing import plan_writer
from dragoman.formats.avro.nodes import Node
from dragoman.schema.types import RecordType, Type


@dataclass(frozen=True, slots=True)
class NativeCodec(Codec):
    """Each way is native if there is a plan for it."""

    python: Codec
    reader: Reader | None
    writer: Writer | None
    cls: type | None
    """What the writer takes instances of, and nothing else."""

    def framed(self, header: bytes, cls: type | None = None) -> Codec:
        plain = self.python.framed(header, cls)
        encode, decode = plain.encode, plain.decode
        if self.writer is not None and (cls is None or cls is self.cls):
            encode = Encoder(self.writer, plain.encode, header).encode
        if self.reader is not None:
            decode = Decoder(self.reader, plain.decode, len(header)).decode
        return Codec(encode, decode)


def native_codec(python: Codec, writer: Node, reader: Node, type: Type | None) -> Codec:
    reading, writing = plan_reader(writer, reader, type), plan_writer(writer, type)
    return NativeCodec(
        python.encode if writing is None else Encoder(writing, python.encode).encode,
        python.decode if reading is None else Decoder(reading, python.decode).decode,
        python,
        reading,
        writing,
        type.cls if isinstance(type, RecordType) else None,
    )
