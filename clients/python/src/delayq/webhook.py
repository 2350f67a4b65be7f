"""Web hooks of a delayq server, signed as Standard Webhooks specifies."""

from __future__ import annotations

import base64
import hashlib
import hmac
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Union

from .codec import decode
from .errors import InvalidInput, InvalidSignature
from .values import Span, seconds


@dataclass(frozen=True)
class Hook:
    """A task that the server has pushed. `webhook_id` is the same in every attempt of the task."""

    webhook_id: str
    type: str
    id: str
    attempt: int
    fence: int
    message: bytes
    headers: dict[str, str]

    def decode(self, into: Any = Any) -> Any:
        """The message as a value of this type."""
        return decode(self.message, into)


class Webhook:
    """Verifies requests that are signed with one of the secrets, such as `whsec_..`."""

    def __init__(self, secret: Union[str, Sequence[str]], *, tolerance: Span = 300) -> None:
        coded = [secret] if isinstance(secret, str) else secret
        self._tolerance = seconds(tolerance)
        try:
            keys = [base64.b64decode(one.strip().removeprefix("whsec_"), validate=True)
                    for one in coded]  # fmt: skip
        except ValueError as error:
            raise InvalidInput(f"the secret is no base64: {error}") from None
        if not keys or not all(keys):
            raise InvalidInput("no secret: give that of the target, such as whsec_..")
        self._keys = keys

    def verify(self, headers: Mapping[str, str], body: bytes) -> Hook:
        """The task of a request. Raises `InvalidSignature`: answer that with 401."""
        said = {name.lower(): value for name, value in headers.items()}
        key, stamp = said.get("webhook-id", ""), said.get("webhook-timestamp", "")
        try:
            is_now = abs(time.time() - int(stamp)) <= self._tolerance
        except ValueError:
            raise InvalidSignature("the request has no webhook-timestamp") from None
        if not is_now:
            raise InvalidSignature("the request is old, or a clock is wrong")
        signed = f"{key}.{stamp}.".encode() + body
        own = [base64.b64encode(hmac.digest(one, signed, hashlib.sha256)) for one in self._keys]
        given = [one.removeprefix("v1,") for one in said.get("webhook-signature", "").split()]
        # All are compared, so that the time does not tell which one is right.
        if not any([hmac.compare_digest(one, other.encode()) for one in own for other in given]):
            raise InvalidSignature("the request is not signed with a secret of this receiver")
        prefix = "delayq-header-"
        facts = {name[len(prefix) :]: one for name, one in said.items() if name.startswith(prefix)}
        return Hook(
            key, said.get("delayq-task-type", ""), said.get("delayq-task-id", ""),
            int(said.get("delayq-attempt", 1)), int(said.get("delayq-fence", 0)), body, facts,
        )  # fmt: skip
