"""Envelopes for tests: one, and all there can be."""

from __future__ import annotations

from hypothesis import strategies as st

from dragoman.gateway.envelope import Datum, Destination, Envelope, Originator, Sender

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
maybe = st.none() | texts


def data(deepest: int = 4) -> st.SearchStrategy[list[Datum]]:
    flat = st.builds(Datum, field=texts, check=maybe, value=texts)
    found = st.lists(flat, max_size=4)
    for _ in range(deepest - 1):
        found = st.lists(st.builds(Datum, field=texts, check=maybe, value=texts | found), max_size=3)
    return found


envelopes = st.builds(
    Envelope,
    destination=st.builds(
        Destination,
        resource=texts,
        method=texts | st.sampled_from(["select", "RESPONSE", "Process"]),
        entity=maybe,
        timestamp=maybe,
        version=texts,
    ),
    client=st.builds(Sender, client_id=texts, request_id=texts, source_endpoint=texts, authorization=texts),
    originator=st.builds(
        Originator,
        client_id=texts,
        request_id=texts,
        source_endpoint=texts,
        original_token=texts,
        security=texts,
        message_ttl=st.none() | st.integers(0, 2**53 - 1),
    ),
    data=data(),
)
