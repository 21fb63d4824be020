"""Thrift: documents, and payloads in the compact and the binary protocol."""

from dragoman.formats.thrift.format import ThriftFormat
from dragoman.formats.thrift.markers import Id, Kind
from dragoman.formats.thrift.schema import Protocol, ThriftSchema

__all__ = ["Id", "Kind", "Protocol", "ThriftFormat", "ThriftSchema"]
