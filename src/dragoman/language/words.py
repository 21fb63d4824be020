"""The fixed words of the language, and how its older dialects spelt them."""

from __future__ import annotations

CHANNEL_TYPES = (
    "POINT_TO_POINT",
    "PUBLISH_SUBSCRIBE",
    "DATA_TYPE",
    "INVALID_MESSAGE",
    "DEAD_LETTER",
    "GUARANTEED_DELIVERY",
)
GUARANTEES = ("UNKNOWN", "AT_LEAST_ONCE", "AT_MOST_ONCE", "EXACTLY_ONCE")
MESSAGE_TYPES = ("COMMAND_MESSAGE", "EVENT_MESSAGE", "DOCUMENT_MESSAGE")
ENDPOINT_TYPES = (
    "TRANSACTIONAL_CLIENT",
    "POLLING_CONSUMER",
    "EVENT_DRIVEN_CONSUMER",
    "IDEMPOTENT_RECEIVER",
    "MESSAGING_GATEWAY",
    "MESSAGING_MAPPER",
    "COMPETING_CONSUMER",
    "MESSAGE_DISPATCHER",
    "SELECTIVE_CONSUMER",
    "DURABLE_SUBSCRIBER",
    "SERVICE_ACTIVATOR",
)
ROLES = ("D", "MD", "ID", "L", "Data", "Metadata", "Identifier", "Link")
SHORT_ROLES = {"Data": "D", "Metadata": "MD", "Identifier": "ID", "Link": "L"}
BASIC_TYPES = ("bool", "int", "long", "float", "double", "string", "raw", "void")
RESOURCE_ROLES = (
    "PROCESSING_RESOURCE",
    "INFORMATION_HOLDER_RESOURCE",
    "OPERATIONAL_DATA_HOLDER",
    "MASTER_DATA_HOLDER",
    "REFERENCE_DATA_HOLDER",
    "DATA_TRANSFER_RESOURCE",
    "LINK_LOOKUP_RESOURCE",
    "STATEFUL_PROCESSING_RESOURCE",
    "STATELESS_PROCESSING_RESOURCE",
    "VALIDATION_RESOURCE",
    "TRANSFORMATION_RESOURCE",
    "COLLECTION_RESOURCE",
    "MUTABLE_COLLECTION_RESOURCE",
)
VISIBILITIES = ("PUBLIC_API", "COMMUNITY_API", "SOLUTION_INTERNAL_API")
DIRECTIONS = ("FRONTEND_INTEGRATION", "BACKEND_INTEGRATION")
TYPE_SYSTEMS = (
    "MAP_TYPE",
    "JOLIE_TYPE",
    "JSON_SCHEMA",
    "XML_SCHEMA",
    "PROTOCOL_BUFFER",
    "AVRO_SCHEMA",
    "THRIFT_TYPE",
    "GRAPHQL_SDL",
    "OTHER",
)
PROTOCOLS = (
    "AMQP",
    "Kafka",
    "MQTT",
    "NATS",
    "Redis",
    "STOMP",
    "JMS_ActiveMQ",
    "HTTP",
    "RESTful_HTTP",
    "SOAP_HTTP",
    "JSON-RPC",
    "Avro_RPC",
    "Thrift",
    "Web_Sockets",
    "gRPC",
    "Java",
)
SECURITY = (
    "BASIC_AUTHENTICATION",
    "USER_PASSWORD",
    "API_KEY",
    "HTTP_API_KEY",
    "JWT",
    "X509",
    "SYMMETRIC_ENCRYPTION",
    "ASYMMETRIC_ENCRYPTION",
    "OAUTH_IMPLICIT",
    "OAUTH_PASSWORD",
    "OAUTH_CLIENT_CREDENTIALS",
    "OAUTH_AUTHORIZATION_CODE",
    "OAUTH_FLOW",
    "OPEN_ID_CONNECT",
    "SASL_PLAIN",
    "SASL_SCRAM_SHA_256",
    "SASL_SCRAM_SHA_512",
    "SASL_GSSAPI",
    "OTHER_MEANS",
    "TBC",
    "String",
)
RESPONSIBILITIES = (
    "COMPUTATION_FUNCTION",
    "STATE_CREATION_OPERATION",
    "RETRIEVAL_OPERATION",
    "STATE_TRANSITION_OPERATION",
    "EVENT_PROCESSOR",
    "BUSINESS_ACTIVITY_PROCESSOR",
    "STATE_REPLACEMENT_OPERATION",
    "STATE_DELETION_OPERATION",
)
EXCHANGE_PATTERNS = ("ONE_WAY", "REQUEST_REPLY", "NOTIFICATION")
FLOW_TYPES = (
    "APPLICATION_FLOW",
    "INTEGRATION_FLOW",
    "SERVICE_ORCHESTRATION",
    "API_CALL_SEQUENCING",
    "EVENT_SOURCING",
)
FLOW_TECHNOLOGIES = (
    "APACHE_CAMEL_ROUTE",
    "SPRING_INTEGRATION_FLOW",
    "BPMN_PROCESS",
    "BPEL_PROCESS",
    "YET_ANOTHER_FLOW_LANGUAGE",
    "PLAIN_PROGRAMMING",
)
COMPARISONS = ("==", "!=", "<=", ">=", "<", ">")
AND_WORDS = ("+", "and")
XOR_WORDS = ("x", "X", "xor", "alternatively")
OR_WORDS = ("o", "O", "or")

MISSPELT = {
    "SERRVICE_ACTIVATOR": "SERVICE_ACTIVATOR",
    "COMPETEING_CONSUMER": "COMPETING_CONSUMER",
    "BASIC_AUTHENITICATION": "BASIC_AUTHENTICATION",
}
"""Spellings that were published, and are therefore in files."""

DECLARATIONS = {
    "API": ("description", "provider", "client", "gateway"),
    "data": ("type",),
    "relation": ("type",),
    "event": ("type",),
    "command": ("type",),
    "endpoint": ("type",),
    "message": ("broker", "endpoint"),
    "SLA": ("template",),
}
"""First and second word of each declaration; ``channel``, ``flow`` and ``scenario`` need only one."""
SINGLE_DECLARATIONS = ("channel", "flow", "scenario")
