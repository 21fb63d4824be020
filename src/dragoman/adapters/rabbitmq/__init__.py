"""``rabbitmq://``: channels as RabbitMQ streams, groups as places in them."""

from dragoman.adapters.rabbitmq.broker import RabbitmqBroker

__all__ = ["RabbitmqBroker"]
