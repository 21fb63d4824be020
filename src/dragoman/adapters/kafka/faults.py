"""Kafka's errors as ours, in one table that names each of librdkafka's codes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from confluent_kafka import KafkaError, KafkaException

from dragoman.core.errors import (
    AccessRefused,
    BrokerError,
    BrokerUnavailable,
    ChannelNotFound,
    ConfigurationError,
    DragomanError,
    EncodeError,
    Revoked,
    Unsupported,
)

KINDS: dict[type[DragomanError], str] = {
    ChannelNotFound: """
        UNKNOWN_TOPIC_OR_PART UNKNOWN_TOPIC_ID INCONSISTENT_TOPIC_ID _UNKNOWN_TOPIC _UNKNOWN_PARTITION""",
    Revoked: """
        ILLEGAL_GENERATION UNKNOWN_MEMBER_ID STALE_MEMBER_EPOCH FENCED_MEMBER_EPOCH FENCED_INSTANCE_ID
        UNRELEASED_INSTANCE_ID REBALANCE_IN_PROGRESS MEMBER_ID_REQUIRED PRODUCER_FENCED INVALID_PRODUCER_EPOCH
        INVALID_PRODUCER_ID_MAPPING _ASSIGNMENT_LOST _MAX_POLL_EXCEEDED _FENCED
        FENCED_STATE_EPOCH STREAMS_TOPOLOGY_FENCED""",
    AccessRefused: """
        _AUTHENTICATION _SSL SASL_AUTHENTICATION_FAILED ILLEGAL_SASL_STATE UNSUPPORTED_SASL_MECHANISM
        TOPIC_AUTHORIZATION_FAILED GROUP_AUTHORIZATION_FAILED CLUSTER_AUTHORIZATION_FAILED
        TRANSACTIONAL_ID_AUTHORIZATION_FAILED SECURITY_DISABLED DELEGATION_TOKEN_AUTH_DISABLED
        DELEGATION_TOKEN_NOT_FOUND DELEGATION_TOKEN_OWNER_MISMATCH DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
        DELEGATION_TOKEN_AUTHORIZATION_FAILED DELEGATION_TOKEN_EXPIRED INVALID_PRINCIPAL_TYPE
        PRINCIPAL_DESERIALIZATION_FAILURE UNACCEPTABLE_CREDENTIAL TOPIC_DELETION_DISABLED""",
    ConfigurationError: """
        _INVALID_ARG _NOT_CONFIGURED _UNKNOWN_PROTOCOL TOPIC_EXCEPTION TOPIC_ALREADY_EXISTS INVALID_CONFIG
        INVALID_PARTITIONS INVALID_REPLICATION_FACTOR INVALID_REPLICA_ASSIGNMENT INVALID_REQUEST
        INVALID_REQUIRED_ACKS INVALID_GROUP_ID INVALID_SESSION_TIMEOUT INVALID_TRANSACTION_TIMEOUT
        INVALID_REGULAR_EXPRESSION INCONSISTENT_GROUP_PROTOCOL UNSUPPORTED_ASSIGNOR GROUP_MAX_SIZE_REACHED
        POLICY_VIOLATION _EXISTING_SUBSCRIPTION _CONFLICT""",
    EncodeError: """
        MSG_SIZE_TOO_LARGE INVALID_MSG_SIZE RECORD_LIST_TOO_LARGE INVALID_RECORD INVALID_TIMESTAMP
        OFFSET_METADATA_TOO_LARGE INVALID_COMMIT_OFFSET_SIZE UNSUPPORTED_COMPRESSION_TYPE
        _KEY_SERIALIZATION _VALUE_SERIALIZATION _INVALID_DIFFERENT_RECORD""",
    Unsupported: """
        UNSUPPORTED_VERSION UNSUPPORTED_FOR_MESSAGE_FORMAT _NOT_IMPLEMENTED _UNSUPPORTED_FEATURE
        UNSUPPORTED_ENDPOINT_TYPE MISMATCHED_ENDPOINT_TYPE""",
    BrokerUnavailable: """
        _TRANSPORT _ALL_BROKERS_DOWN _RESOLVE _TIMED_OUT _TIMED_OUT_QUEUE _MSG_TIMED_OUT _DESTROY
        _DESTROY_BROKER _QUEUE_FULL _WAIT_COORD _WAIT_CACHE _RETRY _INTR _IN_PROGRESS _PREV_IN_PROGRESS
        _ISR_INSUFF _NODE_UPDATE _UNKNOWN_BROKER _CRIT_SYS_RESOURCE _PURGE_QUEUE _PURGE_INFLIGHT _OUTDATED
        REQUEST_TIMED_OUT NETWORK_EXCEPTION BROKER_NOT_AVAILABLE REPLICA_NOT_AVAILABLE LEADER_NOT_AVAILABLE
        NOT_LEADER_FOR_PARTITION NOT_ENOUGH_REPLICAS NOT_ENOUGH_REPLICAS_AFTER_APPEND
        COORDINATOR_LOAD_IN_PROGRESS COORDINATOR_NOT_AVAILABLE NOT_COORDINATOR NOT_CONTROLLER
        KAFKA_STORAGE_ERROR LOG_DIR_NOT_FOUND STALE_CTRL_EPOCH STALE_BROKER_EPOCH FENCED_LEADER_EPOCH
        UNKNOWN_LEADER_EPOCH OFFSET_NOT_AVAILABLE PREFERRED_LEADER_NOT_AVAILABLE LISTENER_NOT_FOUND
        ELIGIBLE_LEADERS_NOT_AVAILABLE UNSTABLE_OFFSET_COMMIT THROTTLING_QUOTA_EXCEEDED
        FETCH_SESSION_ID_NOT_FOUND INVALID_FETCH_SESSION_EPOCH CONCURRENT_TRANSACTIONS REBOOTSTRAP_REQUIRED
        REASSIGNMENT_IN_PROGRESS UNKNOWN_CONTROLLER_ID _NOENT""",
    BrokerError: """
        UNKNOWN NO_ERROR OFFSET_OUT_OF_RANGE INVALID_MSG OUT_OF_ORDER_SEQUENCE_NUMBER TRANSACTION_ABORTABLE
        DUPLICATE_SEQUENCE_NUMBER INVALID_TXN_STATE TRANSACTION_COORDINATOR_FENCED OPERATION_NOT_ATTEMPTED
        UNKNOWN_PRODUCER_ID NON_EMPTY_GROUP GROUP_ID_NOT_FOUND ELECTION_NOT_NEEDED GROUP_SUBSCRIBED_TO_TOPIC
        NO_REASSIGNMENT_IN_PROGRESS RESOURCE_NOT_FOUND DUPLICATE_RESOURCE INCONSISTENT_VOTER_SET
        INVALID_UPDATE_VERSION FEATURE_UPDATE_FAILED UNKNOWN_SUBSCRIPTION_ID TELEMETRY_TOO_LARGE
        INVALID_REGISTRATION INVALID_RECORD_STATE SHARE_SESSION_NOT_FOUND INVALID_SHARE_SESSION_EPOCH
        INVALID_VOTER_KEY DUPLICATE_VOTER VOTER_NOT_FOUND STREAMS_INVALID_TOPOLOGY
        STREAMS_INVALID_TOPOLOGY_EPOCH SHARE_SESSION_LIMIT_REACHED _BAD_MSG _BAD_COMPRESSION _FAIL
        _PARTITION_EOF _FS _UNKNOWN_GROUP _ASSIGN_PARTITIONS _REVOKE_PARTITIONS _STATE _NO_OFFSET
        _KEY_DESERIALIZATION _VALUE_DESERIALIZATION _PARTIAL _READ_ONLY _UNDERFLOW _INVALID_TYPE
        _FATAL _INCONSISTENT _GAPLESS_GUARANTEE _APPLICATION _NOOP _AUTO_OFFSET_RESET _LOG_TRUNCATION""",
}

BY_CODE: dict[int, type[DragomanError]] = {
    # A name that an older or newer librdkafka lacks is no harm: it cannot be raised.
    getattr(KafkaError, name): kind
    for kind, names in KINDS.items()
    for name in names.split()
    if hasattr(KafkaError, name)
}

_NEXT: dict[type[DragomanError], str] = {
    ChannelNotFound: "Create it first: dragoman channel create NAME",
    BrokerUnavailable: "Is the server up and the address right?",
    AccessRefused: "Check user, password, mechanism and certificates, and the server's rules for them.",
    ConfigurationError: "Check the URL's options and the channel's settings.",
    EncodeError: "Raise the topic's max.message.bytes and the URL's message.max.bytes, or send less at once.",
    Unsupported: "Use a newer server, or leave the option out.",
    Revoked: "It is delivered again, here or to another member of the group.",
    BrokerError: "Look at the server's log.",
}

_WITH_OWN_NAME = {
    "PRODUCER_FENCED": "broker.fenced",
    "INVALID_PRODUCER_EPOCH": "broker.fenced",
    "_FENCED": "broker.fenced",
}


def translated(error: KafkaError, **where: Any) -> DragomanError:
    kind = BY_CODE.get(error.code(), BrokerError)
    text = (error.str() or "").rstrip(".")
    code = _WITH_OWN_NAME.get(error.name())
    return kind(f"Kafka says {error.name()}: {text}.", next=_NEXT[kind], code=code, **where)


def unconfirmed(channel: str | None, next: str) -> BrokerUnavailable:
    """For what the driver reports as stored without saying where.

    It concludes that from what the server took later. But a leader that does not know the producer yet takes
    that without the earlier.
    """
    return BrokerUnavailable(
        "Kafka has taken later messages and not confirmed these: they may be lost.",
        next=next,
        channel=channel,
    )


@contextmanager
def faults(**where: Any) -> Iterator[None]:
    """Whatever Kafka's client raises inside comes out as ours."""
    try:
        yield
    except KafkaException as error:
        raise translated(error.args[0], **where) from error
    except BufferError as error:
        raise BrokerUnavailable(
            "The queue to Kafka is full.", next=_NEXT[BrokerUnavailable], **where
        ) from error
    except RuntimeError as error:
        raise BrokerUnavailable(
            f"Kafka's client is closed: {error}.", next="Connect again.", **where
        ) from error
