"""Values, spans and messages."""

from __future__ import annotations

import dataclasses
import enum
import json
import uuid
from datetime import datetime, timedelta, timezone
from decimal import Decimal
from typing import Annotated, Any, Literal, NewType, Optional, TypedDict, Union

import pydantic
import pytest

from delayq import InvalidInput, InvalidMessage, Retry
from delayq.codec import decode, encode
from delayq.values import millis


class Color(enum.Enum):
    RED = "red"


Cents = NewType("Cents", int)


@dataclasses.dataclass
class Inner:
    n: int
    tags: set[str] = dataclasses.field(default_factory=set)


@dataclasses.dataclass(frozen=True)
class Outer:
    name: str
    inner: Inner
    many: list[Inner]
    by_name: dict[str, Inner]
    pair: tuple[int, str]
    more: tuple[float, ...]
    color: Color
    at: datetime
    key: uuid.UUID
    price: Decimal
    cents: Cents
    kind: Literal["a", "b"]
    maybe: Optional[Inner] = None
    either: Union[int, str, None] = None
    noted: Annotated[int, "a note"] = 0
    any: Any = None


class Base(TypedDict):
    do: str


class Typed(Base, total=False):
    times: int
    inner: Inner


class Model(pydantic.BaseModel):
    order: int
    at: datetime = pydantic.Field(alias="when")


OUTER = Outer(
    "ü", Inner(1, {"x"}), [Inner(2)], {"a": Inner(3)}, (1, "b"), (1.0, 2.0), Color.RED,
    datetime(2026, 1, 1, tzinfo=timezone.utc), uuid.UUID(int=7), Decimal("1.10"), Cents(5), "a",
    Inner(4), "text", 3, {"free": [1]},
)  # fmt: skip


def test_values_come_back_as_they_were() -> None:
    assert decode(encode(OUTER), Outer) == OUTER
    model = Model(order=1, when=datetime(2026, 1, 1, tzinfo=timezone.utc))
    assert decode(encode(model), Model) == model
    assert decode(encode([model]), list[Model]) == [model]
    assert decode(b'{"do":"x","inner":{"n":1},"new":1}', Typed) == {"do": "x", "inner": Inner(1)}
    assert decode(b"", Any) is None and decode(b"\xff", bytes) == b"\xff"
    assert decode(b'{"n":1,"unknown":2}', Inner) == Inner(1)
    assert decode(b"1", float) == 1.0 and decode(b"null", Optional[int]) is None


@pytest.mark.parametrize(
    ("body", "into", "text"),
    [
        (b"{", Inner, "no JSON"), (b"\xff", str, "no JSON"), (b"[]", Inner, "Inner with n"),
        (b"{}", Inner, "Inner with n"), (b'{"n":"1"}', Inner, "message.n: int"),
        (b'{"n":true}', Inner, "int"), (b'{"n":1.5}', Inner, "int"),
        (b'{"n":1,"tags":"x"}', Inner, "message.tags"), (b'"blue"', Color, "blue"),
        (b"{}", Typed, "do"), (b'{"do":"x","times":"many"}', Typed, "message.times"),
        (b"[1]", tuple[int, str], "a list of 2"), (b'"c"', Literal["a"], "one of"),
        (b"1", str, "str"), (b'{"order":"x"}', Model, "message"), (b'"soon"', datetime, "message"),
        (b"1", Union[str, None], "str"), (b"[1]", object.__class__, "type"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused(body: bytes, into: Any, text: str) -> None:
    with pytest.raises(InvalidMessage, match=text):
        decode(body, into)


def test_what_json_does_not_have_is_refused() -> None:
    for value in (float("nan"), object(), "\ud800", {1: {2: object()}}, b"bytes within"):
        with pytest.raises(InvalidInput):
            encode([value])
    assert json.loads(encode({"a": Color.RED, 1: None})) == {"a": "red", "1": None}


@pytest.mark.parametrize(
    ("span", "ms"),
    [
        ("30m", 1_800_000), ("1h 30m", 5_400_000), ("1h30m", 5_400_000), ("7 days", 604_800_000),
        ("1500ms", 1500), ("2s", 2000), ("90 seconds", 90_000), ("1.5h", 5_400_000), ("0s", 0),
        ("5 minutes", 300_000), ("2 mins", 120_000), ("1 hour", 3_600_000), ("1w", 604_800_000),
        (2, 2000), (0.25, 250), (timedelta(minutes=1), 60_000), ("1d", 86_400_000),
        ("20 millis", 20), ("3 sec", 3000), ("2hrs", 7_200_000),
    ],
)  # fmt: skip
def test_spans(span: Any, ms: int) -> None:
    assert millis(span) == ms


@pytest.mark.parametrize("span", ["", "5", "soon", "5x", "-5s", "1 month", "5m!", -1, float("inf")])
def test_no_spans(span: Any) -> None:
    with pytest.raises(InvalidInput):
        millis(span)


def test_the_waits_of_a_retry() -> None:
    retry = Retry(max=5, wait="1s", max_wait="5s")
    assert [retry.wait_after(n) for n in range(1, 6)] == [1000, 2000, 4000, 5000, 5000]
    assert Retry(wait=2, fixed=True).wait_after(9) == 2000
