"""What is sent, and what comes back."""

from __future__ import annotations

import base64
import dataclasses
import re
import secrets
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from typing import Any, Literal, TypeVar, Union

from .codec import decode, encode
from .errors import InvalidInput

Span = Union[timedelta, str, int, float]
"""A span: a `timedelta`, text such as "30m" or "1h 30m", or a number of seconds."""
Time = Union[datetime, str, int]
"""A time: a `datetime` with a zone, text in RFC 3339, or milliseconds since the epoch."""
# Any other text is one that this release does not know yet.
Outcome = Union[Literal["accepted", "replaced", "already_exists", "runs_again"], str]
State = Union[Literal["scheduled", "running", "dead", "done", "cancelled", "expired"], str]

NAMES = (
    ("ms msec msecs millisecond milliseconds", 1), ("s sec secs second seconds", 1000),
    ("m min mins minute minutes", 60_000), ("h hr hrs hour hours", 3_600_000),
    ("d day days", 86_400_000), ("w week weeks", 604_800_000),
)  # fmt: skip
UNITS = {name: ms for names, ms in NAMES for name in names.split()}
PART = re.compile(r"(\d+(?:\.\d+)?)\s*(" + "|".join(sorted(UNITS, reverse=True)) + r")\b[\s,]*")


def millis(span: Span) -> int:
    """The milliseconds of a span."""
    if isinstance(span, timedelta):
        ms = span / timedelta(milliseconds=1)
    elif isinstance(span, str):
        parts = PART.findall(span)
        if not parts or PART.sub("", span.strip()):
            raise InvalidInput(f"{span!r} is no span: write such as 30s, 10m, 1h 30m or 7d")
        ms = sum(float(number) * UNITS[unit] for number, unit in parts)
    elif isinstance(span, (int, float)) and not isinstance(span, bool):
        ms = span * 1000
    else:
        raise InvalidInput(f"{span!r} is no span: give a timedelta, text such as 30m, or seconds")
    if not 0 <= ms < 2**53:
        raise InvalidInput(f"{span!r}: a span is not negative and not endless")
    return round(ms)


def seconds(span: Span) -> float:
    return millis(span) / 1000


def written_span(span: Span | None) -> str | int | None:
    """A span as the server reads it, which also judges text."""
    if not isinstance(span, str):
        return None if span is None else millis(span)
    if span.strip().isdigit():
        raise InvalidInput(f"{span!r} has no unit: write such as {span}s or {span}ms")
    return span


def written_time(time: Time | None) -> str | int | None:
    """A time as the server reads it."""
    if isinstance(time, datetime):
        if time.tzinfo is None:
            raise InvalidInput(f"{time} has no zone: use such as datetime.now(timezone.utc)")
        return round((time - datetime(1970, 1, 1, tzinfo=timezone.utc)) / timedelta(milliseconds=1))
    if time is None or (isinstance(time, (str, int)) and not isinstance(time, bool)):
        return time
    raise InvalidInput(f"{time!r} is no time: give a datetime with a zone, or text in RFC 3339")


def moment(ms: Any) -> datetime:
    return datetime(1970, 1, 1, tzinfo=timezone.utc) + timedelta(milliseconds=int(ms))


@dataclass
class Job:
    """A task to send. `after` counts from its acceptance, and `at` is a point in time.

    `debounce` (with `max_wait`) and `throttle` need an `id`. Names of headers are lower case.
    """

    type: str
    message: Any = None
    id: str | None = None
    after: Span | None = None
    at: Time | None = None
    on_conflict: Literal["reject", "keep", "replace"] | None = None
    debounce: Span | None = None
    max_wait: Span | None = None
    throttle: Span | None = None
    expires_after: Span | None = None
    expires_at: Time | None = None
    group: str | None = None
    project: str | None = None
    headers: dict[str, str] = field(default_factory=dict)
    again_if_running: bool = False

    def with_id(self) -> Job:
        """The same with an id, so that it can be sent again."""
        if self.id is not None:
            return self
        if self.debounce is not None or self.throttle is not None:
            raise InvalidInput("debounce and throttle go by the id of the task: give it an id")
        return dataclasses.replace(self, id=secrets.token_hex(16))

    def options(self) -> dict[str, Any]:
        """The options as parameters of a request, or fields of a line."""
        given = {
            "delay": written_span(self.after),
            "at": written_time(self.at),
            "on_conflict": self.on_conflict,
            "debounce": written_span(self.debounce),
            "max_wait": written_span(self.max_wait),
            "throttle": written_span(self.throttle),
            "expires_after": written_span(self.expires_after),
            "expires_at": written_time(self.expires_at),
            "group": self.group,
            "project": self.project,
            "again_if_running": self.again_if_running or None,
        }
        return {name: value for name, value in given.items() if value is not None}

    def content(self) -> tuple[bytes, dict[str, str]]:
        """The message and the headers."""
        headers = {name.lower(): value for name, value in self.headers.items()}
        if isinstance(self.message, (bytes, bytearray)):
            return bytes(self.message), headers
        return encode(self.message).encode(), {"content-type": "application/json", **headers}

    def line(self) -> dict[str, Any]:
        """The task as an object of JSON, without its type."""
        message, headers = self.content()
        try:
            said = {"message": message.decode()}
        except UnicodeDecodeError:
            said = {"message_base64": base64.b64encode(message).decode()}
        named = {} if self.id is None else {"id": self.id}
        return {**named, **said, "headers": headers, **self.options()}

    def typed_line(self) -> dict[str, Any]:
        return {"type": self.type, **self.line()}


T = TypeVar("T")


def read(into: type[T], facts: dict[str, Any]) -> T:
    """The fields of a dataclass from an answer; those that it does not have are left out."""
    found: dict[str, Any] = {}
    for one in dataclasses.fields(into):  # type: ignore[arg-type]
        if one.name == "message":
            text = facts.get("message")
            coded = facts.get("message_base64") or ""
            found["message"] = base64.b64decode(coded) if text is None else text.encode()
        elif facts.get(one.name) is not None:
            is_time = "datetime" in str(one.type)
            found[one.name] = moment(facts[one.name]) if is_time else facts[one.name]
    return into(**found)


class Decoded:
    """A message that can be decoded."""

    message: bytes

    def decode(self, into: Any = Any) -> Any:
        """The message as a value of this type."""
        return decode(self.message, into)


@dataclass(frozen=True)
class Reply:
    """What became of a task: `value` is the reply of its worker, if the `state` is `done`.

    The state is `pending` while the task has not ended. `error` says why a task is dead.
    """

    state: Union[Literal["done", "pending", "dead", "cancelled", "expired"], str]
    value: Any = None
    error: str | None = None
    body: bytes = b""
    content_type: str = ""

    def decode(self, into: Any) -> Any:
        """The reply as a value of this type."""
        return decode(self.body, into)


@dataclass(frozen=True)
class Receipt:
    """The acceptance of a task. With `wait`, `reply` is there, and `state` is what it says."""

    id: str
    outcome: Outcome
    durability: str = ""
    due_at: datetime | None = None
    state: State | None = None
    reply: Reply | None = None


@dataclass(frozen=True)
class Changed:
    """A stored change. The outcome of a cancel is `cancelled`, or `running`: asked to stop."""

    outcome: Union[Literal["changed", "cancelled", "running"], str]
    due_at: datetime | None = None


@dataclass(frozen=True)
class Task(Decoded):
    """A task as the server knows it. `at` is when it is due, its lock ends, it died or ended."""

    id: str
    state: State
    at: datetime
    attempt: int
    headers: dict[str, str]
    message: bytes = b""
    cancel_requested: bool = False
    due_at: datetime | None = None
    submitted_at: datetime | None = None
    expires_at: datetime | None = None
    last_error: str | None = None


@dataclass(frozen=True)
class Life:
    """The end of a task, in its history."""

    outcome: Union[Literal["done", "dead", "expired", "cancelled", "discarded"], str]
    ended_at: datetime
    submitted_at: datetime | None = None
    due_at: datetime | None = None
    started_at: datetime | None = None
    attempts: int = 0
    run_ms: int | None = None
    group: str | None = None
    project: str | None = None
    error: str | None = None


@dataclass(frozen=True)
class Batch:
    """An accepted batch: the ids of its tasks, and the task that follows."""

    name: str
    ids: list[str]
    then_type: str
    then_id: str


@dataclass(frozen=True)
class BatchState:
    """How far a batch is. `counts` has `total`, `done`, `dead` and so on, until it is over."""

    state: Union[Literal["waiting", "cancelled", "over", "dead"], str]
    counts: dict[str, Any] | None = None
    is_exact: bool = True


@dataclass(frozen=True)
class BatchCancelled:
    """How many tasks of a batch were cancelled, and how many run and were asked to stop."""

    changed: int
    running: int


@dataclass(frozen=True)
class Recurring(Decoded):
    """A recurring task."""

    id: str
    type: str
    every: str
    paused: bool
    headers: dict[str, str]
    message: bytes = b""
    zone: str | None = None
    next_at: datetime | None = None
    since: datetime | None = None


@dataclass(frozen=True)
class Retry:
    """How often a failed attempt is made again: `max` attempts, the first included.

    The wait doubles from `wait` up to `max_wait`, unless it is `fixed`, and has 10 % jitter.
    """

    max: int = 5
    wait: Span = "1s"
    max_wait: Span = "10m"
    fixed: bool = False

    def wait_after(self, attempt: int) -> int:
        """The milliseconds before the next attempt, without jitter."""
        doubled = millis(self.wait) * (1 if self.fixed else 2 ** min(attempt - 1, 60))
        return min(doubled, max(millis(self.max_wait), millis(self.wait)))
