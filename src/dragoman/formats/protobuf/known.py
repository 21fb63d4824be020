"""Files that every Protobuf user may import without registering them.

``google/protobuf/*`` comes with the protobuf package itself; ``google/type/*`` and ``confluent/*`` lie beside
this module, since Confluent's clients take them for granted too.
"""

from __future__ import annotations

import importlib
import re
from functools import lru_cache
from importlib import resources

from google.protobuf import descriptor_pb2 as pb

_GOOGLE = re.compile(r"google/protobuf/(?:compiler/)?[a-z_]+\.proto")
_BUNDLED = re.compile(r"(?:google/type|confluent|confluent/type|confluent/types)/[a-z_]+\.proto")


@lru_cache(maxsize=256)
def known_file(name: str) -> pb.FileDescriptorProto | None:
    """The file of this import path, linked; ``None`` if it is not one of the known. Do not change it."""
    if _GOOGLE.fullmatch(name):
        return _installed(name)
    if _BUNDLED.fullmatch(name):
        return _bundled(name)
    return None


def _installed(name: str) -> pb.FileDescriptorProto | None:
    module = name.removesuffix(".proto").replace("/", ".") + "_pb2"
    try:
        found = importlib.import_module(module)
    except ModuleNotFoundError:
        return None
    return pb.FileDescriptorProto.FromString(found.DESCRIPTOR.serialized_pb)


def _bundled(name: str) -> pb.FileDescriptorProto | None:
    resource = resources.files(__package__).joinpath("known", *name.split("/"))
    if not resource.is_file():
        return None
    # Imported late: reading these files is what that module is for.
    from dragoman.formats.protobuf.schema import ProtobufSchema

    file = pb.FileDescriptorProto()
    file.CopyFrom(ProtobufSchema.from_text(resource.read_text("utf-8"), {}).file)
    file.name = name
    return file
