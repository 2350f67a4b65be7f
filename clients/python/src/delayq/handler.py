"""A handler: how it is called, and what its end means."""

from __future__ import annotations

import asyncio
import inspect
import json
import random
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from typing import Any

from . import tracing
from .codec import decode, encode
from .context import Context, Dead, Later, RetryAfter, log
from .errors import InvalidInput, InvalidMessage
from .values import Retry, Span, millis

Around = Callable[[Context], AbstractContextManager[Any]]
Report = tuple[str, dict[str, Any]]  # the end of a path, and the parts of the request
RELEASE: Report = "release", {}


class Handler:
    """A function for the tasks of a type."""

    jitter = 0.1

    def __init__(
        self, type: str, function: Callable[..., Any], places: int, lock: Span, retry: Retry | None
    ) -> None:
        self.type, self.function, self.places, self.retry = type, function, places, retry
        self.lock = millis(lock)
        if places < 1 or not 1000 <= self.lock <= 86_400_000:
            raise InvalidInput(f"{type}: concurrency is at least 1, and lock is 1s to 24h")
        if retry and (retry.max < 1 or millis(retry.max_wait) < millis(retry.wait)):
            raise InvalidInput(f"{type}: retry.max is at least 1, and max_wait is at least wait")
        try:
            parameters = inspect.signature(function, eval_str=True).parameters.values()
        except NameError as error:
            raise TypeError(f"the handler of {type}: {error}; define it in the module") from error
        call = getattr(function, "__call__", None)  # noqa: B004
        self.is_async = any(map(inspect.iscoroutinefunction, (function, call)))
        self.cx_name = self.message_name = ""
        for one in parameters:
            if one.name == "cx" or one.annotation is Context:
                self.cx_name = one.name
            elif one.default is one.empty and one.kind is one.POSITIONAL_OR_KEYWORD:
                if self.message_name:
                    raise TypeError(f"the handler of {type} gets a message and cx, not {one.name}")
                self.message_name = one.name
                self.message_type = Any if one.annotation is one.empty else one.annotation

    def arguments(self, cx: Context, around: list[Around], stack: ExitStack) -> dict[str, Any]:
        for hook in (tracing.attempt_span, *around):
            stack.enter_context(hook(cx))
        found: dict[str, Any] = {self.cx_name: cx} if self.cx_name else {}
        if self.message_name:
            try:
                found[self.message_name] = decode(cx.message, self.message_type)
            except InvalidMessage as error:  # a repetition would not help
                raise Dead(error.detail) from error
        return found

    def call(self, cx: Context, around: list[Around]) -> Any:
        """Calls a plain function."""
        with ExitStack() as stack:
            return self.function(**self.arguments(cx, around, stack))

    async def acall(self, cx: Context, around: list[Around]) -> Any:
        """Calls a coroutine function, and cancels it when it shall stop."""
        task, loop = asyncio.current_task(), asyncio.get_running_loop()
        if task:
            cx.on_stop(lambda reason: loop.call_soon_threadsafe(task.cancel, reason))
        try:
            with ExitStack() as stack:
                return await self.function(**self.arguments(cx, around, stack))
        except (SystemExit, KeyboardInterrupt) as error:  # these would end the event loop
            raise RuntimeError(f"{type(error).__name__}: {error}") from error

    def report(self, cx: Context, result: Any, error: BaseException | None) -> Report:
        """What the end of the function means for the task."""
        if error is None:
            try:
                return done(cx, result)
            except InvalidInput as reason:
                error = reason
        if cx.stop_reason == "cancelled":
            return failed("cancelled")
        if isinstance(error, Later):
            return "release", {"params": {"after": millis(error.after)}}
        if isinstance(error, Dead):
            log.warning("%s: it is dead: %s", cx, error)
            return failed(str(error), dead="true")
        if isinstance(error, RetryAfter):
            log.warning("%s failed, and comes again in %s: %s", cx, error.after, error)
            return self.retried(cx, str(error), millis(error.after))
        if cx.stop_reason:  # it was told to end
            return RELEASE
        text = f"{type(error).__name__}: {error}".removesuffix(": ")
        log.warning("%s failed: %s", cx, text, exc_info=error)
        return self.retried(cx, text)

    def retried(self, cx: Context, error: str, after: int | None = None) -> Report:
        more: dict[str, Any] = {} if after is None else {"retry_after": after}
        if self.retry:
            jitter = random.uniform(1 - self.jitter, 1 + self.jitter)
            wait = round(self.retry.wait_after(cx.attempt) * jitter)
            more = {"retry_after": wait, "max_attempts": self.retry.max, **more}
        return failed(error, **more)


def failed(error: str, **params: Any) -> Report:
    content = error[:2000].encode(errors="replace")
    return "fail", {"params": params, "content": content, "headers": {"content-type": "text/plain"}}


def done(cx: Context, result: Any) -> Report:
    """The report of an attempt whose reply is this result of a handler."""
    is_bytes, has_reply = isinstance(result, bytes), result is not None
    content = b"" if not has_reply else result if is_bytes else encode(result)
    if not cx._follow_ups:
        kind = "application/octet-stream" if is_bytes else "application/json"
        return "done", {"content": content, "headers": {"content-type": kind} if has_reply else {}}
    if is_bytes:
        raise InvalidInput("a reply of bytes does not go with cx.then: return a value of JSON")
    reply = {"reply": json.loads(content)} if has_reply else {}
    return "done-then", {"json": {**reply, "then": [job.line() for job in cx._follow_ups]}}
