"""A handler: how it is called, and what its end means."""

from __future__ import annotations

import asyncio
import inspect
import json
import random
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from typing import Any, Literal

from . import tracing
from .codec import decode, encode
from .context import Context, Dead, Later, RetryAfter, log
from .errors import InvalidInput, InvalidMessage
from .values import Retry, Span, millis

Around = Callable[[Context], AbstractContextManager[Any]]


class Handler:
    """A function for the tasks of a type."""

    def __init__(
        self, type: str, function: Callable[..., Any], places: int, lock: Span, retry: Retry | None
    ) -> None:
        self.type, self.function, self.places, self.retry = type, function, places, retry
        self.lock = millis(lock)
        if places < 1:
            raise InvalidInput(f"concurrency={places}: at least 1")
        if not 1000 <= self.lock <= 86_400_000:
            raise InvalidInput(f"lock={lock}: 1s to 24h")
        if retry and not 0 < millis(retry.wait) <= millis(retry.max_wait) and not retry.fixed:
            raise InvalidInput("retry: max_wait is not below wait")
        call = getattr(function, "__call__", function)  # noqa: B004: of an object
        self.is_async = any(map(inspect.iscoroutinefunction, (function, call)))
        try:
            parameters = inspect.signature(function, eval_str=True).parameters.values()
        except NameError as error:
            raise TypeError(f"the handler of {type}: {error}; define it in the module") from error
        self.cx_name = self.message_name = ""
        for one in parameters:
            if one.name == "cx" or one.annotation is Context:
                self.cx_name = one.name
            elif one.default is one.empty and one.kind is one.POSITIONAL_OR_KEYWORD:
                if self.message_name:
                    raise TypeError(f"the handler of {type} has a message and cx, no {one.name}")
                self.message_name = one.name
                self.message_type = Any if one.annotation is one.empty else one.annotation

    def arguments(self, cx: Context) -> dict[str, Any]:
        found: dict[str, Any] = {self.cx_name: cx} if self.cx_name else {}
        if self.message_name:
            found[self.message_name] = decode(cx.message, self.message_type)
        return found

    def enter(self, stack: ExitStack, cx: Context, around: list[Around]) -> dict[str, Any]:
        for hook in (tracing.attempt_span, *around):
            stack.enter_context(hook(cx))
        return self.arguments(cx)

    def call(self, cx: Context, around: list[Around]) -> Any:
        """Calls a plain function."""
        with ExitStack() as stack:
            return self.function(**self.enter(stack, cx, around))

    async def acall(self, cx: Context, around: list[Around]) -> Any:
        """Calls a coroutine function, and cancels it when it shall stop."""
        task, loop = asyncio.current_task(), asyncio.get_running_loop()
        if task:
            cx.on_stop(lambda reason: loop.call_soon_threadsafe(task.cancel, reason))
        with ExitStack() as stack:
            return await self.function(**self.enter(stack, cx, around))

    def end(self, cx: Context, result: Any, error: BaseException | None) -> End:
        """What the end of the function means for the task."""
        if error is None:
            try:
                return End("done", reply=written(result, cx))
            except InvalidInput as reason:
                error = reason
        if cx.stop_reason == "shutdown":
            return End("release")
        if cx.stop_reason == "cancelled":
            return End("fail", error="cancelled")
        if isinstance(error, Later):
            return End("release", after=millis(error.after))
        text = f"{type(error).__name__}: {error}".removesuffix(": ")
        if isinstance(error, (Dead, InvalidMessage)):
            log.warning("%s: it is dead: %s", cx, error)
            return End("dead", error=str(error))
        if isinstance(error, RetryAfter):
            log.warning("%s failed, again in %s: %s", cx, error.after, error)
            return self.failed(cx, str(error), millis(error.after))
        log.warning("%s failed: %s", cx, text, exc_info=error)
        return self.failed(cx, text, None)

    def failed(self, cx: Context, error: str, after: int | None) -> End:
        if self.retry is None:
            return End("fail", error=error, after=after)
        if after is None:
            after = round(self.retry.wait_after(cx.attempt) * random.uniform(0.9, 1.1))
        return End("fail", error=error, after=after, max_attempts=self.retry.max)


@dataclass(frozen=True)
class End:
    """The end of an attempt, as it is reported."""

    what: Literal["done", "fail", "dead", "release"]
    reply: tuple[bytes, str] | None = None
    error: str = ""
    after: int | None = None
    max_attempts: int | None = None

    def request(self, cx: Context) -> tuple[str, dict[str, Any]]:
        """The last part of its path, and the rest of the request."""
        if self.what == "done":
            content, kind = self.reply or (b"", "")
            if not cx._follow_ups:
                headers = {"content-type": kind} if kind else {}
                return "done", {"content": content, "headers": headers}
            form: dict[str, Any] = {"then": [job.typed_line() for job in cx._follow_ups]}
            if self.reply:
                form["reply"] = json.loads(content)
            return "done-then", {"json": form}
        if self.what == "release":
            return "release", {"params": {"after": self.after or 0}}
        params: dict[str, Any] = {"retry_after": self.after, "max_attempts": self.max_attempts}
        params = {name: value for name, value in params.items() if value is not None}
        content = self.error[:2000].encode(errors="replace")
        headers = {"content-type": "text/plain; charset=utf-8"}
        params = {"dead": "true"} if self.what == "dead" else params
        return "fail", {"params": params, "content": content, "headers": headers}


def written(result: Any, cx: Context) -> tuple[bytes, str] | None:
    """The reply that is the result of a handler."""
    if result is None:
        return None
    if not isinstance(result, bytes):
        return encode(result).encode(), "application/json"
    if cx._follow_ups:
        raise InvalidInput("a reply of bytes does not go with cx.then: return a value of JSON")
    return result, "application/octet-stream"
