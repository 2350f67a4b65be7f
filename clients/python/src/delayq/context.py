"""What a handler knows of its attempt, and what it may raise."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal

from . import tracing
from .values import Job, Span, message_of, moment, seconds

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .values import Options

log = logging.getLogger("delayq")
Reason = Literal["cancelled", "lost", "shutdown"]


class Dead(Exception):
    """The task is dead: no further attempt."""


class Later(Exception):
    """The task comes again after this time. It uses up no attempt."""

    def __init__(self, after: Span) -> None:
        super().__init__(f"later: in {after}")
        self.after = after


class RetryAfter(Exception):
    """The attempt failed, and the next one, if there is one, comes after this time."""

    def __init__(self, after: Span, error: object = "") -> None:
        super().__init__(str(error))
        self.after = after


class Stopped(Exception):
    """A wait of `cx.sleep` has ended early: the attempt shall stop."""


class Context:
    """One attempt of a task.

    `cancelled` is set when somebody cancels the task, `lost` when its lock is lost, and `stop` in
    both cases and when the program ends; `stop_reason` says which.
    """

    def __init__(self, facts: dict[str, Any]) -> None:
        self.type: str = facts["type"]
        self.id: str = facts["id"]
        self.attempt: int = facts["attempt"]
        self.fence: int = facts["fence"]
        self.due_at, self.submitted_at = moment(facts["due_at"]), moment(facts["submitted_at"])
        self.headers: dict[str, str] = facts["headers"]
        self.group = self.headers.get("group")
        self.last_error: str | None = facts.get("last_error")
        self.message = message_of(facts)
        self.cancelled, self.lost, self.stop = (threading.Event() for _ in range(3))
        self.stop_reason: Reason | None = None
        self._follow_ups: list[Job] = []
        self._callbacks: list[Callable[[Reason], object]] = []

    def __str__(self) -> str:
        return f"{self.type}/{self.id}, attempt {self.attempt}"

    def then(self, type: str, message: Any = None, **options: Unpack[Options]) -> None:
        """Sends a task when this one is done, and only then, in the same request."""
        job = Job(type, message, **options)
        if job.id is None:
            job.headers = {**tracing.of_current_span(), **job.headers}
        self._follow_ups.append(job)

    def sleep(self, span: Span) -> None:
        """Sleeps in a handler that is no coroutine. Raises `Stopped` when it shall stop."""
        if self.stop.wait(seconds(span)):
            raise Stopped(self.stop_reason)

    def on_stop(self, callback: Callable[[Reason], object]) -> None:
        """Calls this, with the reason, when the attempt shall stop. It must not block."""
        self._callbacks.append(callback)
        if self.stop_reason:
            self._tell(callback, self.stop_reason)

    def _stop(self, reason: Reason) -> None:
        if self.lost.is_set() or (self.stop_reason and reason != "lost"):
            return
        self.stop_reason = reason
        for event in (getattr(self, reason, None), self.stop):
            if event:
                event.set()
        for callback in self._callbacks:
            self._tell(callback, reason)

    def _tell(self, callback: Callable[[Reason], object], reason: Reason) -> None:
        try:
            callback(reason)
        except Exception:
            log.exception("%s: a callback of on_stop failed", self)
