"""Web hooks of a delayq server, signed as Standard Webhooks specifies."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Union

from .codec import decode
from .errors import InvalidInput, InvalidSignature
from .values import Decoded, Span, moment, seconds


@dataclass(frozen=True)
class Hook(Decoded):
    """A task that the server has pushed. `key` is the same in every attempt of the task."""

    key: str
    type: str
    id: str
    attempt: int
    fence: int
    due_at: datetime | None
    message: bytes
    headers: dict[str, str] = field(default_factory=dict)


class Webhook:
    """Verifies requests that are signed with one of the secrets, such as `whsec_..`."""

    def __init__(self, secret: Union[str, Sequence[str]], *, tolerance: Span = 300) -> None:
        secrets = [secret] if isinstance(secret, str) else list(secret)
        self._tolerance = seconds(tolerance)
        try:
            coded = (one.strip().removeprefix("whsec_") for one in secrets)
            self._keys = [base64.b64decode(one, validate=True) for one in coded]
        except (binascii.Error, ValueError) as error:
            raise InvalidInput(f"the secret is no base64: {error}") from None
        if not self._keys or not all(self._keys):
            raise InvalidInput("no secret: give that of the target, such as whsec_..")

    def verify(self, headers: Mapping[str, str], body: bytes) -> Hook:
        """The task of a request. Raises `InvalidSignature`: answer that with 401."""
        said = {name.lower(): value for name, value in headers.items()}
        stamp, given = said.get("webhook-timestamp", ""), said.get("webhook-signature", "")
        if not (stamp.isascii() and stamp.isdigit()):
            raise refused("it has no webhook-timestamp")
        if abs(time.time() - int(stamp)) > self._tolerance:
            raise refused("its time is not now: it is old, or a clock is wrong")
        signed = f"{said.get('webhook-id', '')}.{stamp}.".encode() + body
        own = [base64.b64encode(hmac.digest(key, signed, hashlib.sha256)) for key in self._keys]
        signatures = [one[3:].encode() for one in given.split(" ") if one.startswith("v1,")]
        # All are compared, so that the time does not tell which one is right.
        if not any([hmac.compare_digest(one, other) for one in own for other in signatures]):
            raise refused("no signature is made with a secret of this receiver")
        due_at, prefix = said.get("delayq-due-at"), "delayq-header-"
        return Hook(
            key=said.get("webhook-id", ""),
            type=said.get("delayq-task-type", ""),
            id=said.get("delayq-task-id", ""),
            attempt=int(said.get("delayq-attempt", 1)),
            fence=int(said.get("delayq-fence", 0)),
            due_at=moment(due_at) if due_at else None,
            message=body,
            headers={
                name.removeprefix(prefix): value
                for name, value in said.items()
                if name.startswith(prefix)
            },
        )

    def message(self, headers: Mapping[str, str], body: bytes, into: Any = Any) -> Any:
        """The message of a request that `verify` accepts, as a value of this type."""
        return decode(self.verify(headers, body).message, into)


def refused(why: str) -> InvalidSignature:
    return InvalidSignature(f"the web hook is refused: {why}", kind="invalid-signature", status=401)
