"""MQTT 5 and 3.1.1."""

from dragoman.adapters.mqtt.broker import MqttBroker

__all__ = ["MqttBroker"]
