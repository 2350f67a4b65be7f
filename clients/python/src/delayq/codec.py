"""Messages: typed values to JSON and back."""

from __future__ import annotations

import collections.abc as abc
import dataclasses
import json
import types
import typing
from datetime import date, datetime, time
from decimal import Decimal
from enum import Enum
from typing import Any
from uuid import UUID

from .errors import InvalidInput, InvalidMessage

Shape = Any  # a type, as it is written in an annotation
TEXT: dict[Shape, Any] = {
    date: date.fromisoformat, time: time.fromisoformat, UUID: UUID, Decimal: Decimal,
    datetime: lambda text: datetime.fromisoformat(text.replace("Z", "+00:00")),
}  # fmt: skip
LISTS: dict[Shape, Any] = {
    list: list, tuple: tuple, set: set, frozenset: frozenset, abc.Sequence: list,
    abc.Iterable: list, abc.Set: set,
}  # fmt: skip


def plain(value: Any) -> Any:
    """A value that JSON has, for one that it does not have."""
    if hasattr(value, "model_dump"):  # pydantic
        return value.model_dump(mode="json", by_alias=True)
    if dataclasses.is_dataclass(value):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, (datetime, date, time)):
        return value.isoformat()
    if isinstance(value, (UUID, Decimal)):
        return str(value)
    if isinstance(value, (set, frozenset)):
        return list(value)
    raise TypeError(f"{type(value).__name__} has no form in JSON")


def encode(value: Any) -> bytes:
    """The JSON of a message or reply."""
    form: dict[str, Any] = {"ensure_ascii": False, "allow_nan": False, "separators": (",", ":")}
    try:
        return json.dumps(value, default=plain, **form).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInput(f"the message cannot be written as JSON: {error}") from error


def decode(data: bytes, into: Shape = Any) -> Any:
    """The value of a message as `into`: a type, or `bytes` for the message as it is."""
    if into is bytes:
        return data
    try:
        value = json.loads(data) if data else None
    except (ValueError, RecursionError) as error:
        raise InvalidMessage(f"the message is no JSON: {error}") from error
    return build(value, into, "message")


def build(value: Any, into: Shape, at: str) -> Any:
    """The value as this type; `at` is its place in the message."""
    origin: Any = typing.get_origin(into)
    args = typing.get_args(into)
    if into in (Any, object):
        return value
    if hasattr(into, "__supertype__"):  # of NewType
        return build(value, into.__supertype__, at)
    name = getattr(origin, "_name", None)
    if origin is typing.Annotated or name in ("Required", "NotRequired", "ReadOnly"):
        return build(value, args[0], at)
    if origin in (typing.Union, types.UnionType):
        return build_union(value, args, at)
    if origin is typing.Literal:
        is_known = any(value == one and type(value) is type(one) for one in args)
        return value if is_known else refuse(value, f"one of {args}", at)
    if hasattr(into, "model_validate"):  # pydantic
        return made(at, into.model_validate, value)
    if dataclasses.is_dataclass(into) or typing.is_typeddict(into):
        return build_object(value, into, at)
    return build_plain(value, origin or into, args, at)


def build_union(value: Any, choices: tuple[Shape, ...], at: str) -> Any:
    reasons = []
    for one in choices:
        try:
            return build(value, one, at)
        except InvalidMessage as error:
            reasons.append(error.detail)
    raise InvalidMessage("; or ".join(reasons))


def build_object(value: Any, into: Shape, at: str) -> Any:
    hints = typing.get_type_hints(into, include_extras=True)
    if dataclasses.is_dataclass(into):
        none = dataclasses.MISSING
        fields = {field.name: field for field in dataclasses.fields(into) if field.init}
        needed = {
            name for name, one in fields.items() if one.default is one.default_factory is none
        }
    else:
        fields, needed = hints, into.__required_keys__
    if not isinstance(value, dict) or needed - value.keys():
        return refuse(value, " with ".join([into.__name__, ", ".join(sorted(needed))]), at)
    known = fields.keys() & value.keys()
    found = {name: build(value[name], hints[name], f"{at}.{name}") for name in known}
    return made(at, into, **found)


def build_plain(value: Any, into: Shape, args: tuple[Shape, ...], at: str) -> Any:
    if into in (dict, abc.Mapping) and isinstance(value, dict):
        each = args[1] if args else Any
        return {name: build(one, each, f"{at}.{name}") for name, one in value.items()}
    if into in LISTS and isinstance(value, list):
        shapes: Any = args if into is tuple and args and args[-1] is not ... else None
        if shapes and len(shapes) != len(value):
            return refuse(value, f"a list of {len(shapes)}", at)
        shapes = shapes or (args or (Any,))[:1] * len(value)
        each = (build(one, shape, f"{at}[]") for one, shape in zip(value, shapes, strict=True))
        return LISTS[into](each)
    if into is float and type(value) is int:
        return float(value)
    if into in (str, int, float, bool, type(None)) and type(value) is into:
        return value
    if into in TEXT and isinstance(value, str):
        return made(at, TEXT[into], value)
    if isinstance(into, type) and issubclass(into, Enum):
        return made(at, into, value)
    return refuse(value, getattr(into, "__name__", str(into)), at)


def made(at: str, into: Any, /, *args: Any, **named: Any) -> Any:
    try:
        return into(*args, **named)
    except (ValueError, TypeError, ArithmeticError) as error:
        raise InvalidMessage(f"{at}: {error}") from error


def refuse(value: Any, wanted: str, at: str) -> typing.NoReturn:
    shown = repr(value)
    shown = shown if len(shown) <= 80 else shown[:80] + ".."
    raise InvalidMessage(f"{at}: {wanted} is expected, and it is {shown}")
