"""``kafka://``: Apache Kafka, through librdkafka."""

from dragoman.adapters.kafka.broker import KafkaBroker

__all__ = ["KafkaBroker"]
