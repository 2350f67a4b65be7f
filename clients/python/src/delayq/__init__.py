"""delayq: durable delayed tasks over the HTTP API of a delayq server."""

from .app import App
from .context import Context, Dead, Later, RetryAfter, Stopped
from .errors import (
    Conflict, DelayqError, InvalidInput, InvalidMessage, InvalidSignature, LimitExceeded, LockLost,
    NotFound, Unauthorized, Unavailable,
)  # fmt: skip
from .values import (
    Batch, BatchState, Changed, Job, Life, Options, Receipt, Recurring, Reply, Retry, Span, Task,
    Time,
)  # fmt: skip
from .webhook import Hook, Webhook

__version__ = "0.1.0"
__all__ = [
    "App", "Batch", "BatchState", "Changed", "Conflict", "Context", "Dead",
    "DelayqError", "Hook", "InvalidInput", "InvalidMessage", "InvalidSignature", "Job", "Later",
    "Life", "LimitExceeded", "LockLost", "NotFound", "Options", "Receipt", "Recurring", "Reply",
    "Retry", "RetryAfter", "Span", "Stopped", "Task", "Time", "Unauthorized", "Unavailable",
    "Webhook",
]  # fmt: skip
