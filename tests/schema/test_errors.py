"""Errors travel between processes whole."""

from __future__ import annotations

import pickle

from dragoman.core.contract import Incompatibility
from dragoman.core.errors import IncompatibleSchema, NotFound


def test_an_error_comes_back_as_it_went() -> None:
    error = NotFound("No such thing.", next="Look elsewhere.", code="registry.not-found.thing", contract="a")
    back = pickle.loads(pickle.dumps(error))
    assert type(back) is NotFound
    assert (back.what, back.next, back.code, back.where) == (
        "No such thing.",
        "Look elsewhere.",
        "registry.not-found.thing",
        {"contract": "a"},
    )
    assert str(back) == str(error)


def test_what_an_error_has_beside_comes_along() -> None:
    error = IncompatibleSchema("No.", version=None)
    error.reasons = (Incompatibility("TYPE_MISMATCH", "long is not string"),)
    back = pickle.loads(pickle.dumps(error))
    assert (back.reasons, back.code, back.where) == (error.reasons, "schema.incompatible", {})
