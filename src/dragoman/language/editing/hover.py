"""What a word means."""

from __future__ import annotations

from dragoman.language.editing.document import Document
from dragoman.language.tokens import WORD

MEANINGS = {
    "POINT_TO_POINT": "Exactly one receiver gets each message.",
    "PUBLISH_SUBSCRIBE": "Every subscriber gets a copy of each message.",
    "DATA_TYPE": "All messages have the same payload and header structure.",
    "INVALID_MESSAGE": "For messages that their receivers could not handle.",
    "DEAD_LETTER": "For messages that the messaging system could not deliver.",
    "GUARANTEED_DELIVERY": "Messages are stored until they are delivered and acknowledged.",
    "AT_LEAST_ONCE": "No message is lost; some may come twice.",
    "AT_MOST_ONCE": "No message comes twice; some may be lost.",
    "EXACTLY_ONCE": "No message is lost and none takes effect twice.",
    "COMMAND_MESSAGE": "Asks the receiver to do something.",
    "DOCUMENT_MESSAGE": "Hands data over; what to do with it is up to the receiver.",
    "EVENT_MESSAGE": "Tells that something has happened.",
    "SELECTIVE_CONSUMER": "Consumes only messages that meet a condition.",
    "DURABLE_SUBSCRIBER": "Gets the messages that came while it was away.",
    "POLLING_CONSUMER": "Asks for messages when it is ready.",
    "EVENT_DRIVEN_CONSUMER": "Is called when a message comes.",
    "COMPETING_CONSUMER": "Shares the messages of a channel with others of its kind.",
    "IDEMPOTENT_RECEIVER": "Can get a message twice without harm.",
    "TRANSACTIONAL_CLIENT": "Receives and sends within one transaction.",
    "MESSAGING_GATEWAY": "Hides messaging behind an ordinary interface.",
    "MESSAGING_MAPPER": "Moves data between domain objects and messages.",
    "MESSAGE_DISPATCHER": "Hands the messages of a channel to its workers.",
    "SERVICE_ACTIVATOR": "Calls a service for each message.",
    "MESSAGE_EXPIRES": "After this time a message is no longer handled.",
    "CORRELATION_ID": "Tells which request a reply is for.",
    "SEQUENCE_ID": "Tells the place of a message among those that belong together.",
    "RETURN_ADDRESS": "Tells where the reply is wanted.",
    "provides": "The API's side of a channel: receives what it accepts, sends what it produces.",
    "uses": "A client of a channel: sends what it accepts, receives what it produces.",
}


def hover(document: Document, offset: int) -> str | None:
    """Markdown about the word at a place: the declaration of a name, the meaning of a keyword."""
    found = document.at(offset)
    if found is not None:
        declared = document.declared(found)
        head = f"**{found.kind}** {found.name.text}"
        return f"{head}\n\n```mdsl\n{declared}\n```" if declared else head
    for token in document.parsed.source.significant_tokens:
        if token.start <= offset <= token.end and token.kind == WORD:
            return MEANINGS.get(token.text)
    return None
