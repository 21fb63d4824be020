"""What follows from an answer, or from none. Without input or output: the heart of the orchestrator."""

from __future__ import annotations

from dataclasses import replace
from enum import StrEnum
from typing import Any

from dragoman.client.saga.state import ENDED, Progress, State
from dragoman.client.saga.steps import Saga


class Verdict(StrEnum):
    DONE = "done"
    REFUSED = "refused"
    """The participant has said no, and has changed nothing."""
    UNKNOWN = "unknown"
    """No answer, or a failure that does not tell what was changed."""


def after(saga: Saga[Any], now: Progress, verdict: Verdict, reason: str, time: float) -> Progress:
    """Where the saga goes. Unless it has ended or is stuck, a command is to be sent when it is due."""
    if now.state in ENDED:
        return now
    if verdict is Verdict.DONE:
        return _forward(saga, now, time) if now.state is State.RUNNING else _back(saga, now, now.step, time)
    if now.state is State.RUNNING and saga.can_turn_back(now.step):
        step = saga.steps[now.step]
        if verdict is Verdict.REFUSED:
            return _back(saga, now, now.step, time, reason)
        if now.sends >= step.retry.attempts and not step.pivot:
            # It may or may not have been done: to undo what was not done does no harm.
            return _back(saga, now, now.step + 1, time, reason)
    return _again(saga, now, verdict, reason, time)


def _forward(saga: Saga[Any], now: Progress, time: float) -> Progress:
    if now.step + 1 == len(saga.steps):
        return replace(now, state=State.COMPLETED, waiting=False, due=None, problem=None)
    return replace(now, step=now.step + 1, attempt=0, sends=0, waiting=False, due=time, problem=None)


def _back(saga: Saga[Any], now: Progress, before: int, time: float, reason: str = "") -> Progress:
    """Undo the last step before this one that can be undone."""
    problem = reason or now.problem
    for index in reversed(range(before)):
        if saga.steps[index].compensation is not None:
            return replace(
                now,
                state=State.COMPENSATING,
                step=index,
                attempt=0,
                sends=0,
                waiting=False,
                due=time,
                problem=problem,
            )
    return replace(now, state=State.REJECTED, waiting=False, due=None, problem=problem)


def _again(saga: Saga[Any], now: Progress, verdict: Verdict, reason: str, time: float) -> Progress:
    """The same command once more, after a rest. A refused one is a new attempt, to be answered anew."""
    retry = saga.steps[now.step].retry
    if now.sends >= retry.attempts:
        return replace(now, due=None, problem=reason)
    attempt = now.attempt + 1 if verdict is Verdict.REFUSED else now.attempt
    due = time + retry.pause(max(now.sends, 1))
    return replace(now, attempt=attempt, waiting=False, due=due, problem=reason)
