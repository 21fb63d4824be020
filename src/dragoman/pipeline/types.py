"""Arrow's types as Spark's."""

from __future__ import annotations

from typing import Any

from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema


def spark_schema(schema: Any) -> Any:
    """The Spark schema of an Arrow one. Times without a zone stay without."""
    return from_arrow_schema(schema, prefer_timestamp_ntz=True)


def arrow_schema(spark: Any) -> Any:
    """The Arrow schema that Spark expects of a Python reader with this schema."""
    return to_arrow_schema(spark, timezone="UTC")
