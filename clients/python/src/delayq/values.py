"""What is sent, and what comes back."""

from __future__ import annotations

import base64
import dataclasses
import re
import secrets
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any, Literal, TypedDict, TypeVar, Union

from .codec import decode, encode
from .errors import InvalidInput

if TYPE_CHECKING:
    from typing_extensions import Unpack

Span = Union[timedelta, str, int, float]
"""A span: a `timedelta`, text such as "30m" or "1h 30m", or a number of seconds."""
Time = Union[datetime, str, int]
"""A time: a `datetime` with a zone, text in RFC 3339, or milliseconds since the epoch."""
# A server of a later release may say others.
Outcome = Union[Literal["accepted", "replaced", "already_exists", "runs_again"], str]
Change = Union[Literal["changed", "cancelled", "running"], str]
State = Union[Literal["scheduled", "running", "dead", "done", "cancelled", "expired"], str]
End = Union[Literal["done", "pending", "dead", "cancelled", "expired"], str]

EPOCH, MS = datetime(1970, 1, 1, tzinfo=timezone.utc), timedelta(milliseconds=1)
UNITS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}
PART = re.compile(
    r"(\d+(?:\.\d+)?)\s*(?:(ms|millis)(?:econds?|ecs?)?|(s)(?:ec(?:ond)?s?)?|(m)(?:in(?:ute)?s?)?"
    r"|(h)(?:(?:ou)?rs?)?|(d)(?:ays?)?|(w)(?:eeks?)?)(?![a-z])[\s,]*"
)


def millis(span: Span) -> int:
    """The milliseconds of a span."""
    if isinstance(span, str):
        parts = [[one for one in part if one] for part in PART.findall(span.strip())]
        if not parts or PART.sub("", span.strip()):
            raise InvalidInput(f"{span!r} is no span: write such as 30s, 10m, 1h 30m or 7d")
        ms = sum(float(number) * UNITS[unit.replace("millis", "ms")] for number, unit in parts)
    else:
        ms = span / MS if isinstance(span, timedelta) else span * 1000
    if not 0 <= ms < 2**53:
        raise InvalidInput(f"{span!r}: a span is not negative and not endless")
    return round(ms)


def seconds(span: Span) -> float:
    return millis(span) / 1000


def written_span(span: Span) -> str | int:
    """A span as the server reads it, which also judges text."""
    if not isinstance(span, str):
        return millis(span)
    if span.strip().isdigit():
        raise InvalidInput(f"{span!r} has no unit: write such as {span}s or {span}ms")
    return span


def written_time(time: Time) -> str | int:
    """A time as the server reads it."""
    if not isinstance(time, datetime):
        return time
    if time.tzinfo is None:
        raise InvalidInput(f"{time} has no zone: use such as datetime.now(timezone.utc)")
    return round((time - EPOCH) / MS)


def moment(ms: int) -> datetime:
    return EPOCH + ms * MS


class Options(TypedDict, total=False):
    """How a task is sent. `after` counts from its acceptance, and `at` is a point in time.

    `debounce` (with `max_wait`) and `throttle` need an `id`. Names of headers are lower case.
    """

    id: str | None
    after: Span | None
    at: Time | None
    on_conflict: Literal["reject", "keep", "replace"] | None
    debounce: Span | None
    max_wait: Span | None
    throttle: Span | None
    expires_after: Span | None
    expires_at: Time | None
    group: str | None
    project: str | None
    headers: dict[str, str] | None
    again_if_running: bool | None


class Job:
    """A task to send."""

    def __init__(self, type: str, message: Any = None, **options: Unpack[Options]) -> None:
        if unknown := options.keys() - Options.__annotations__.keys():
            raise TypeError(f"a task has no option {', '.join(sorted(unknown))}")
        self.type, self.message = type, message
        given: dict[str, Any] = {
            name: one for name, one in options.items() if one is not None and one is not False
        }
        self.id: str | None = given.pop("id", None)
        self.headers = {name.lower(): one for name, one in given.pop("headers", {}).items()}
        if isinstance(message, (bytes, bytearray)):
            self.content = bytes(message)
        else:
            self.content = encode(message)
            self.headers.setdefault("content-type", "application/json")
        for name in ("after", "debounce", "max_wait", "throttle", "expires_after"):
            if name in given:
                given["delay" if name == "after" else name] = written_span(given.pop(name))
        for name in {"at", "expires_at"} & given.keys():
            given[name] = written_time(given[name])
        self.options = given

    def with_id(self, headers: dict[str, str]) -> Job:
        """Makes an id, if it has none, so that it can be sent again; then with these headers."""
        if self.id is None:
            if self.options.keys() & {"debounce", "throttle"}:
                raise InvalidInput("debounce and throttle go by the id of the task: give it an id")
            self.id, self.headers = secrets.token_hex(16), {**headers, **self.headers}
        return self

    def line(self, *, typed: bool = True) -> dict[str, Any]:
        """The task as an object of JSON."""
        try:
            said = {"message": self.content.decode()}
        except UnicodeDecodeError:
            said = {"message_base64": base64.b64encode(self.content).decode()}
        named = {name: one for name, one in (("type", self.type), ("id", self.id)) if one}
        named = named if typed else {"id": self.id or ""}
        return {**named, **said, "headers": self.headers, **self.options}


T = TypeVar("T")


def message_of(facts: dict[str, Any]) -> bytes:
    text: str | None = facts.get("message")
    return base64.b64decode(facts.get("message_base64") or "") if text is None else text.encode()


def read(into: type[T], facts: dict[str, Any], **more: Any) -> T:
    """The fields of a dataclass from an answer; those that it does not have are left out."""
    for one in dataclasses.fields(into):  # type: ignore[arg-type]
        value = facts.get(one.name)
        if one.name == "message":
            more["message"] = message_of(facts)
        elif value is not None:
            more[one.name] = moment(value) if "datetime" in str(one.type) else value
    return into(**more)


@dataclass(frozen=True)
class Reply:
    """What became of a task: `value` is the reply of its worker, if the `state` is `done`.

    The state is `pending` while the task has not ended. `error` says why a task is dead.
    """

    state: End
    value: Any = None
    error: str | None = None
    body: bytes = b""

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

    outcome: Change
    due_at: datetime | None = None


@dataclass(frozen=True)
class Task:
    """A task as the server knows it. `at` is when it is due, its lock ends, it died or ended."""

    id: str
    state: State
    at: datetime
    attempt: int
    headers: dict[str, str]
    message: bytes
    cancel_requested: bool = False
    due_at: datetime | None = None
    submitted_at: datetime | None = None
    expires_at: datetime | None = None
    last_error: str | None = None

    def decode(self, into: Any) -> Any:
        """The message as a value of this type."""
        return decode(self.message, into)


@dataclass(frozen=True)
class Life:
    """The end of a task, in its history."""

    outcome: Union[State, Literal["discarded"]]
    ended_at: datetime
    submitted_at: datetime | None = None
    started_at: datetime | None = None
    attempts: int = 0
    run_ms: int | None = None
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
class Recurring:
    """A recurring task."""

    id: str
    type: str
    every: str
    paused: bool
    headers: dict[str, str]
    message: bytes
    zone: str | None = None
    next_at: datetime | None = None


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
        return min(doubled, millis(self.max_wait))
