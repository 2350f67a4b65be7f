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

TEXT: dict[type, Any] = {
    date: date.fromisoformat, time: time.fromisoformat, UUID: UUID, Decimal: Decimal,
    datetime: lambda text: datetime.fromisoformat(text.replace("Z", "+00:00")),
}  # fmt: skip


def plain(value: Any) -> Any:
    """A value that JSON has, for one that it does not have."""
    if hasattr(value, "model_dump"):  # pydantic
        return value.model_dump(mode="json", by_alias=True)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
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


def encode(value: Any) -> str:
    """The JSON of a message or reply."""
    try:
        text = json.dumps(
            value, default=plain, ensure_ascii=False, allow_nan=False, separators=(",", ":")
        )
        text.encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInput(f"the message cannot be written as JSON: {error}") from error
    return text


def decode(data: bytes, into: Any = Any) -> Any:
    """The value of a message as `into`: a type, or `bytes` for the message as it is."""
    if into is bytes:
        return data
    try:
        value = json.loads(data) if data else None
    except (ValueError, RecursionError) as error:
        raise InvalidMessage(f"the message is no JSON: {error}", kind="invalid-message") from error
    return build(value, into, "message")


def build(value: Any, into: Any, at: str) -> Any:
    """The value as this type; `at` is its place in the message."""
    origin, args = typing.get_origin(into), typing.get_args(into)
    if into in (Any, object):
        return value
    if into in (None, type(None)):
        return value if value is None else refuse(value, "null", at)
    if origin is typing.Annotated or hasattr(into, "__supertype__"):
        return build(value, getattr(into, "__supertype__", args[:1] and args[0]), at)
    if origin in (typing.Union, types.UnionType):
        return build_union(value, args, at)
    if origin is typing.Literal:
        is_known = any(value == one and type(value) is type(one) for one in args)
        return value if is_known else refuse(value, f"one of {args}", at)
    if getattr(origin, "_name", "") in ("Required", "NotRequired", "ReadOnly"):
        return build(value, args[0], at)
    if hasattr(into, "model_validate"):  # pydantic
        try:
            return into.model_validate(value)
        except ValueError as error:
            raise InvalidMessage(f"{at}: {error}", kind="invalid-message") from error
    if dataclasses.is_dataclass(into) or typing.is_typeddict(into):
        return build_object(value, into, at)
    return build_plain(value, origin or into, args, at)


def build_union(value: Any, choices: tuple[Any, ...], at: str) -> Any:
    if value is None and type(None) in choices:
        return None
    reasons = []
    for one in (one for one in choices if one is not type(None)):
        try:
            return build(value, one, at)
        except InvalidMessage as error:
            reasons.append(error.detail)
    raise InvalidMessage("; or ".join(reasons), kind="invalid-message")


def build_object(value: Any, into: Any, at: str) -> Any:
    if not isinstance(value, dict):
        return refuse(value, into.__name__, at)
    hints = typing.get_type_hints(into, include_extras=True)
    if dataclasses.is_dataclass(into):
        fields = [one for one in dataclasses.fields(into) if one.init]
        names = {one.name for one in fields}
        none = dataclasses.MISSING
        needed = {
            one.name for one in fields if one.default is none and one.default_factory is none
        }
    else:
        names, needed = set(hints), into.__required_keys__
    if missing := sorted(needed - value.keys()):
        refuse(value, f"{into.__name__} with {', '.join(missing)}", at)
    found = {name: build(value[name], hints[name], f"{at}.{name}") for name in names & value.keys()}
    try:
        return into(**found)
    except (TypeError, ValueError) as error:  # of __post_init__
        raise InvalidMessage(f"{at}: {error}", kind="invalid-message") from error


def build_plain(value: Any, into: Any, args: tuple[Any, ...], at: str) -> Any:
    if into in (dict, abc.Mapping, abc.MutableMapping) and isinstance(value, dict):
        each = args[1] if args else Any
        return {name: build(one, each, f"{at}.{name}") for name, one in value.items()}
    if into is tuple and isinstance(value, list) and args and args[-1] is not ...:
        if len(value) != len(args):
            return refuse(value, f"a list of {len(args)}", at)
        return tuple(build(one, arg, f"{at}[]") for one, arg in zip(value, args, strict=True))
    lists = {abc.Sequence: list, abc.Iterable: list, abc.Set: set}
    if (kind := lists.get(into, into)) in (list, tuple, set, frozenset) and isinstance(value, list):
        return kind(build(one, args[0] if args else Any, f"{at}[]") for one in value)
    if into is float and type(value) is int:
        return float(value)
    if into in (str, int, float, bool):
        return value if type(value) is into else refuse(value, into.__name__, at)
    try:
        if into in TEXT and isinstance(value, str):
            return TEXT[into](value)
        if isinstance(into, type) and issubclass(into, Enum):
            return into(value)
    except (ValueError, ArithmeticError):
        pass
    return refuse(value, getattr(into, "__name__", str(into)), at)


def refuse(value: Any, wanted: str, at: str) -> typing.NoReturn:
    shown = repr(value)
    shown = shown if len(shown) <= 80 else shown[:80] + ".."
    raise InvalidMessage(f"{at}: {wanted} is expected, and it is {shown}", kind="invalid-message")
