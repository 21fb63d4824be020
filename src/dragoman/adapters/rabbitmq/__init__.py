"""``rabbitmq://``: channels as RabbitMQ streams, groups as positions in quorum queues."""

from dragoman.adapters.rabbitmq.broker import RabbitmqBroker

__all__ = ["RabbitmqBroker"]
