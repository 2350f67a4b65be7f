"""The errors of delayq. Each has the facts of the server's problem (RFC 9457)."""

from __future__ import annotations

import json
from typing import Any

REPEATED = {408, 429, 502, 503, 504, 507}


class DelayqError(Exception):
    """The base of all errors of this package.

    `kind` never changes its meaning, such as `conflict` or `queue-full`; `detail` says what to do.
    `is_in_doubt` is true if the request may have been carried out all the same.
    """

    kind = "error"
    status: int | None = None
    title = ""
    is_repeatable = False
    retry_after: float | None = None
    is_in_doubt = False

    def __init__(self, detail: str, **facts: Any) -> None:
        super().__init__(detail)
        self.detail = detail
        vars(self).update(facts)

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

    kind = "bad-request"


class InvalidMessage(InvalidInput):
    """A message or reply is not of the type that it should have."""

    kind = "invalid-message"


class InvalidSignature(InvalidInput):
    """A web hook is not signed with one of the secrets, or is too old."""

    kind, status = "invalid-signature", 401


class LimitExceeded(DelayqError):
    """A limit of the server, a namespace, a token or a type is exceeded (413, 429, 507)."""


class Unavailable(DelayqError):
    """The server or its store was not reached, or did not answer in time."""


CLASSES: dict[int, type[DelayqError]] = {
    400: InvalidInput, 401: Unauthorized, 403: Unauthorized, 404: NotFound, 409: Conflict,
    413: LimitExceeded, 422: InvalidInput, 429: LimitExceeded, 502: Unavailable,
    503: Unavailable, 504: Unavailable, 507: LimitExceeded,
}  # fmt: skip


def of_answer(status: int, body: Any, retry_after: str | None = None) -> DelayqError:
    """The error of an answer or a line: of a problem, or else such as a page of a proxy."""
    try:
        problem = json.loads(body) if isinstance(body, bytes) else body
        detail = problem["detail"]
    except (ValueError, KeyError, TypeError):
        text = body[:200].decode(errors="replace").strip()
        detail = f"the server, or a proxy before it, answered with status {status}: {text}"
        problem = {}
    kind = problem.get("type", f"http-{status}").rpartition(":")[2]
    after = str(problem.get("retry_after", retry_after))
    # A 404 of another address, or of something else than a delayq server, says nothing of a task.
    is_told = problem and kind not in ("no-route", "no-history")
    known = CLASSES.get(status, DelayqError) if is_told or status in REPEATED else DelayqError
    return (LockLost if kind == "lock-lost" else known)(
        detail, kind=kind, status=status, title=problem.get("title", ""),
        is_repeatable=problem.get("is_repeatable", status in REPEATED),
        retry_after=float(after) if after.isdigit() else None, is_in_doubt=status in (502, 504),
    )  # fmt: skip


def lost(detail: str, is_in_doubt: bool) -> Unavailable:
    """The error of a request that has no answer."""
    kind = "in-doubt" if is_in_doubt else "unavailable"
    return Unavailable(detail, kind=kind, is_repeatable=True, is_in_doubt=is_in_doubt)
