"""Protobuf: proto2, proto3 and editions, from text or from descriptors."""

from dragoman.formats.protobuf.format import ProtobufFormat
from dragoman.formats.protobuf.markers import Kind, Oneof, Tag
from dragoman.formats.protobuf.schema import ProtobufSchema

__all__ = ["Kind", "Oneof", "ProtobufFormat", "ProtobufSchema", "Tag"]
