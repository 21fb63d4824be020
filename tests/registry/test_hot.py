"""Answers kept in memory: there when nothing changed, gone when something did."""

from __future__ import annotations

from dragoman.registry.http.hot import HotAnswers, _Entry
from dragoman.registry.name import ContractName

ORDERS, PEOPLE = ContractName(".", "orders"), ContractName(".", "people")
EVERYTHING = ContractName(".", "")


def entry(contract: ContractName | None) -> _Entry:
    return _Entry(contract, {"type": "http.response.start"}, {"type": "http.response.body", "body": b"{}"})


def test_an_answer_is_kept_until_its_contract_changes() -> None:
    answers = HotAnswers()
    answers.put(b"/a", entry(ORDERS), answers.generation)
    answers.put(b"/b", entry(PEOPLE), answers.generation)
    answers.put(b"/c", entry(None), answers.generation)
    answers.forget(ORDERS)
    assert answers.get(b"/a") is None
    assert answers.get(b"/b") is not None
    assert answers.get(b"/c") is not None
    answers.forget(EVERYTHING)
    assert answers.get(b"/b") is answers.get(b"/c") is None


def test_an_answer_that_was_overtaken_by_a_change_is_not_kept() -> None:
    answers = HotAnswers()
    asked = answers.generation
    answers.forget(ORDERS)
    answers.put(b"/a", entry(ORDERS), asked)
    answers.put(b"/b", entry(PEOPLE), asked)
    answers.put(b"/c", entry(None), asked)
    assert answers.get(b"/a") is None
    assert answers.get(b"/b") is not None
    assert answers.get(b"/c") is not None
    asked = answers.generation
    answers.forget(EVERYTHING)
    answers.put(b"/d", entry(None), asked)
    assert answers.get(b"/d") is None


def test_the_answers_do_not_grow_without_end() -> None:
    answers = HotAnswers()
    big = _Entry(None, {}, {"body": b"x" * 1_000_000})
    for number in range(200):
        answers.put(b"/%d" % number, big, answers.generation)
    kept = sum(answers.get(b"/%d" % number) is not None for number in range(200))
    assert 0 < kept < 60
