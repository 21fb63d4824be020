"""The examples: free of findings, formatted, and running."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

from dragoman.cli.model import app
from dragoman.core.errors import ClientError
from dragoman.language.formatter import format_text
from dragoman.language.generators.code import package, stale
from dragoman.language.lint import lint_text
from dragoman.language.model import load_model

EXAMPLES = Path(__file__).parents[2] / "examples"
MODELS = sorted((EXAMPLES / "models").glob("*.mdsl"))


@pytest.mark.parametrize("path", MODELS, ids=lambda path: path.stem)
def test_a_model_has_no_findings_and_the_canonical_form(path: Path) -> None:
    text = path.read_text()
    assert lint_text(text) == []
    assert format_text(text) == text


def test_the_model_in_the_guide_is_as_good() -> None:
    guide = (EXAMPLES.parent / "docs" / "language.md").read_text()
    text = guide.split("```mdsl\n")[1].split("```")[0]
    assert [each for each in lint_text(text) if each.rule != "inline-type"] == []
    assert format_text(text) == text


def test_the_guide_names_every_command() -> None:
    guide = (EXAMPLES.parent / "docs" / "language.md").read_text()
    commands = [
        command.name or command.callback.__name__ for command in app.registered_commands if command.callback
    ]
    assert all(f"dragoman model {name} " in guide for name in commands)


def test_the_loan_brokers_code_fits_its_model() -> None:
    path = EXAMPLES / "models" / "loan-broker.mdsl"
    assert stale(package(load_model(path), path.name), EXAMPLES / "loan_broker") == []


@pytest.fixture
def broker(tmp_path: Path) -> str:
    """The model guarantees delivery, so messages are kept on disk."""
    return f"embedded://{tmp_path / 'broker'}"


@pytest.fixture
def loans(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    monkeypatch.syspath_prepend(str(EXAMPLES))
    monkeypatch.setattr(import_module("loan_broker.loan_broker"), "PATIENCE", 60.0)
    yield import_module("loan_broker.__main__")
    for name in [name for name in sys.modules if name.split(".")[0] == "loan_broker"]:
        del sys.modules[name]


async def test_a_creditworthy_customer_gets_the_best_rate_of_all_banks(
    loans: ModuleType, broker: str
) -> None:
    wish = loans.LoanRequestDto(4742, amount=10_000.0, termInMonths=24, requestId=7)
    async with loans.running(broker, "memory://") as client:
        reply = await client.request("loan-broker.request", wish, reply=_reply(), timeout=60.0)
    assert (reply.quoteId, reply.interestRate, reply.requestId) == (1007, 2.1, 7)


async def test_the_selective_bank_says_nothing_to_others(
    loans: ModuleType, broker: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(import_module("loan_broker.loan_broker"), "PATIENCE", 5.0)
    wish = loans.LoanRequestDto(4711, amount=10_000.0, termInMonths=24, requestId=8)
    async with loans.running(broker, "memory://") as client:
        reply = await client.request("loan-broker.request", wish, reply=_reply(), timeout=60.0)
    assert reply.quoteId != 1008
    assert reply.interestRate > 2.1


async def test_a_proposal_that_comes_late_is_better_than_none(
    loans: ModuleType, broker: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(import_module("loan_broker.loan_broker"), "PATIENCE", 0.0)
    wish = loans.LoanRequestDto(4711, amount=10_000.0, termInMonths=24, requestId=9)
    async with loans.running(broker, "memory://") as client:
        reply = await client.request("loan-broker.request", wish, reply=_reply(), timeout=60.0)
    assert reply.requestId == 9


async def test_a_customer_whom_no_bank_answers_is_told_so(
    loans: ModuleType, broker: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(import_module("loan_broker.loan_broker"), "LATEST", 0.0)
    wish = loans.LoanRequestDto(4711, amount=10_000.0, termInMonths=24, requestId=10)
    async with loans.running(broker, "memory://") as client:
        with pytest.raises(ClientError, match="dead letters"):
            await client.request("loan-broker.request", wish, reply=_reply(), timeout=60.0)


def _reply() -> type:
    found: type = import_module("loan_broker.records").LoanReplyDto
    return found
