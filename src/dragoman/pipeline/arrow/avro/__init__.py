"""Avro as columns."""

from dragoman.pipeline.arrow.avro.format import AvroColumns

__all__ = ["AvroColumns"]
