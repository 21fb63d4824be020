"""Protocols as AsyncAPI knows them: their names, and which keys their bindings have where."""

from __future__ import annotations

from collections.abc import Mapping

from dragoman.language import syntax as s

PROTOCOL_NAMES = {
    "AMQP": "amqp",
    "Kafka": "kafka",
    "MQTT": "mqtt",
    "NATS": "nats",
    "Redis": "redis",
    "STOMP": "stomp",
    "JMS_ActiveMQ": "jms",
    "HTTP": "http",
    "RESTful_HTTP": "http",
    "SOAP_HTTP": "http",
    "JSON-RPC": "http",
    "Web_Sockets": "ws",
}
"""The protocols that have a name in AsyncAPI."""

PLACES = ("server", "channel", "operation", "message")

_KEYS = {
    "amqp": {
        "channel": "is exchange queue",
        "operation": "ack bcc cc deliveryMode expiration mandatory priority timestamp userId",
        "message": "contentEncoding messageType",
    },
    "amqp1": {},
    "anypointmq": {"channel": "destination destinationType", "message": "headers"},
    "googlepubsub": {
        "channel": "labels messageRetentionDuration messageStoragePolicy schemaSettings",
        "message": "attributes orderingKey schema",
    },
    "http": {"operation": "method query type", "message": "headers statusCode"},
    "ibmmq": {
        "server": "groupId ccdtQueueManagerName cipherSpec multiEndpointServer heartBeatInterval",
        "channel": "destinationType queue topic maxMsgLength",
        "message": "type headers description expiry",
    },
    "jms": {
        "server": "jmsConnectionFactory properties clientID",
        "channel": "destination destinationType",
        "message": "headers",
    },
    "kafka": {
        "server": "schemaRegistryUrl schemaRegistryVendor",
        "channel": "topic partitions replicas topicConfiguration",
        "operation": "groupId clientId",
        "message": "key schemaIdLocation schemaIdPayloadEncoding schemaLookupStrategy",
    },
    "mercure": {},
    "mqtt": {
        "server": "clientId cleanSession lastWill keepAlive sessionExpiryInterval maximumPacketSize",
        "operation": "qos retain messageExpiryInterval",
        "message": "payloadFormatIndicator correlationData contentType responseTopic",
    },
    "nats": {"operation": "queue"},
    "pulsar": {
        "server": "tenant",
        "channel": "namespace persistence compaction geo-replication retention ttl deduplication",
    },
    "redis": {},
    "sns": {"channel": "name ordering policy tags", "operation": "topic consumers deliveryPolicy"},
    "solace": {
        "server": "msgVpn clientName",
        "operation": "destinations timeToLive priority dmqEligible",
    },
    "sqs": {"channel": "queue deadLetterQueue", "operation": "queues"},
    "stomp": {},
    "ws": {"channel": "method query headers"},
}

KEYS: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    protocol: {place: tuple(keys.split()) for place, keys in places.items()}
    for protocol, places in _KEYS.items()
}
"""By protocol and place: the keys of its binding specification."""


def protocol_name(written: str) -> str:
    """The name of a protocol in AsyncAPI, for a keyword or a string of the language."""
    return PROTOCOL_NAMES.get(written, written.lower().replace("_", "-"))


def place_of(protocol: str, key: str) -> str | None:
    """Where a key of a channel's bindings belongs: ``channel``, ``operation`` or ``message``."""
    places = KEYS.get(protocol, {})
    return next((place for place in PLACES[1:] if key in places.get(place, ())), None)


def known_keys(protocol: str, server: bool) -> tuple[str, ...]:
    """The keys that a broker's or a channel's bindings may have for a protocol."""
    places = PLACES[:1] if server else PLACES[1:]
    found = KEYS.get(protocol, {})
    return ("bindingVersion", *(key for place in places for key in found.get(place, ())))


DEFAULT_PARTITIONS = 4
"""Of a channel whose model does not say how many it has."""


def partitions_of(message: s.Message) -> int | None:
    """How many partitions the bindings for Kafka give the channel, on whatever broker."""
    for bindings in message.bindings:
        if bindings.protocol and protocol_name(bindings.protocol.text) == "kafka":
            partitions = bindings.object.plain().get("partitions")
            return partitions if isinstance(partitions, int) and partitions > 0 else None
    return None
