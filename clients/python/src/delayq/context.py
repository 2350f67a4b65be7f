"""What a handler knows of its attempt, and what it may raise."""

from __future__ import annotations

import base64
import logging
import threading
from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal

from .values import Job, Span, moment, seconds

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .app import Options

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
    """A wait of `cx.sleep` was ended: the attempt shall stop. It has the reason."""

    def __init__(self, reason: Reason) -> None:
        super().__init__(reason)
        self.reason = reason


class Context:
    """One attempt of a task.

    `cancelled` is set when somebody cancels the task, `lost` when its lock is lost, and `stop` in
    both cases and when the program ends; `stop_reason` says which.
    """

    def __init__(self, facts: dict[str, Any]) -> None:
        text = facts.get("message")
        coded = facts.get("message_base64") or ""
        self.message: bytes = base64.b64decode(coded) if text is None else text.encode()
        self.type: str = facts["type"]
        self.id: str = facts["id"]
        self.attempt: int = facts["attempt"]
        self.fence: int = facts["fence"]
        self.due_at: datetime = moment(facts["due_at"])
        self.submitted_at: datetime = moment(facts["submitted_at"])
        self.headers: dict[str, str] = facts["headers"]
        self.group: str | None = self.headers.get("group")
        self.last_error: str | None = facts.get("last_error")
        self.cancelled, self.lost, self.stop = (threading.Event() for _ in range(3))
        self.stop_reason: Reason | None = None
        self._follow_ups: list[Job] = []
        self._callbacks: list[Callable[[Reason], object]] = []

    def __str__(self) -> str:
        return f"{self.type}/{self.id}, attempt {self.attempt}"

    def then(self, type: str, message: Any = None, **options: Unpack[Options]) -> None:
        """Sends a task when this one is done, and only then, in the same request."""
        job = Job(type, message, **options)
        job.line()  # raises here what cannot be sent
        self._follow_ups.append(job)

    def sleep(self, span: Span) -> None:
        """Sleeps in a handler that is no coroutine. Raises `Stopped` when it shall stop."""
        if self.stop.wait(seconds(span)):
            raise Stopped(self.stop_reason or "shutdown")

    def on_stop(self, callback: Callable[[Reason], object]) -> None:
        """Calls this, with the reason, when the attempt shall stop. It must not block."""
        self._callbacks.append(callback)
        if self.stop_reason:
            self._tell(callback, self.stop_reason)

    def _stop(self, reason: Reason) -> None:
        is_news = self.stop_reason is None or (reason == "lost" and not self.lost.is_set())
        if not is_news:
            return
        self.stop_reason = reason
        if reason != "shutdown":
            (self.cancelled if reason == "cancelled" else self.lost).set()
        self.stop.set()
        for callback in self._callbacks:
            self._tell(callback, reason)

    def _tell(self, callback: Callable[[Reason], object], reason: Reason) -> None:
        try:
            callback(reason)
        except Exception:
            log.exception("%s: a callback of on_stop failed", self)
