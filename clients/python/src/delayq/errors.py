"""The errors of delayq. Each has the facts of the server's problem (RFC 9457)."""

from __future__ import annotations

import json
from typing import Any


class DelayqError(Exception):
    """The base of all errors of this package.

    `kind` never changes its meaning, such as `conflict` or `queue-full`; `detail` says what to do.
    `is_in_doubt` is true if the request may have been carried out all the same.
    """

    def __init__(
        self,
        detail: str,
        *,
        kind: str = "error",
        status: int | None = None,
        title: str = "",
        is_repeatable: bool = False,
        retry_after: float | None = None,
        is_in_doubt: bool = False,
    ) -> None:
        super().__init__(detail)
        self.detail, self.kind, self.status, self.title = detail, kind, status, title
        self.is_repeatable, self.retry_after = is_repeatable, retry_after
        self.is_in_doubt = is_in_doubt

    def __str__(self) -> str:
        return f"{self.detail} ({self.kind})"


class Conflict(DelayqError):
    """The present state does not allow it, such as another task with the same id (409)."""


class LockLost(Conflict):
    """The lock of an attempt is lost: another worker may have the task."""


class NotFound(DelayqError):
    """There is no such task, batch or recurring task (404)."""


class Unauthorized(DelayqError):
    """The token is unknown, or has no right to do this (401, 403)."""


class InvalidInput(DelayqError, ValueError):
    """The request is wrong, and stays wrong if it is sent again (400, 422)."""

    def __init__(self, detail: str, *, kind: str = "bad-request", **facts: Any) -> None:
        super().__init__(detail, kind=kind, **facts)


class InvalidMessage(InvalidInput):
    """A message or reply is not of the type that it should have."""


class InvalidSignature(InvalidInput):
    """A web hook is not signed with one of the secrets, or is too old."""


class LimitExceeded(DelayqError):
    """A limit of the server, a namespace, a token or a type is exceeded (413, 429, 507)."""


class Unavailable(DelayqError):
    """The server or its store was not reached, or did not answer in time."""


REPEATED = {408, 429, 502, 503, 504, 507}
CLASSES: dict[int, type[DelayqError]] = {
    400: InvalidInput, 401: Unauthorized, 403: Unauthorized, 404: NotFound, 409: Conflict,
    413: LimitExceeded, 422: InvalidInput, 429: LimitExceeded, 502: Unavailable,
    503: Unavailable, 504: Unavailable, 507: LimitExceeded,
}  # fmt: skip


def of_problem(status: int, problem: dict[str, Any], retry_after: str | None = None) -> DelayqError:
    """The error of a problem, as it is in the body of an answer or in a line."""
    kind = str(problem.get("type", "")).rpartition(":")[2] or f"http-{status}"
    after = problem.get("retry_after", retry_after)
    try:
        seconds = None if after is None else float(after)
    except ValueError:
        seconds = None
    return (LockLost if kind == "lock-lost" else CLASSES.get(status, DelayqError))(
        str(problem.get("detail") or f"the server answered with status {status}"),
        kind=kind,
        status=status,
        title=str(problem.get("title", "")),
        is_repeatable=bool(problem.get("is_repeatable", status in REPEATED)),
        retry_after=seconds,
        is_in_doubt=status in (502, 504),
    )


def of_answer(status: int, body: bytes, retry_after: str | None) -> DelayqError:
    """The error of an answer, also of one that is no problem, such as a page of a proxy."""
    try:
        problem = json.loads(body)
    except ValueError:
        problem = None
    if isinstance(problem, dict):
        return of_problem(status, problem, retry_after)
    text = body[:200].decode(errors="replace").strip()
    detail = f"the server, or a proxy before it, answered with status {status}: {text}"
    return of_problem(status, {"detail": detail}, retry_after)
