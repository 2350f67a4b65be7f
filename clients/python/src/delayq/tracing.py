"""The trace context of OpenTelemetry, if its API is installed."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .context import Context

try:
    from opentelemetry import trace
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
except ImportError:

    def of_current_span() -> dict[str, str]:
        """The headers `traceparent` and `tracestate` of the current span, if there is one."""
        return {}

    def attempt_span(cx: Context) -> AbstractContextManager[Any]:
        """A span of an attempt, linked to that of the sender."""
        return nullcontext()

else:

    def of_current_span() -> dict[str, str]:
        headers: dict[str, str] = {}
        TraceContextTextMapPropagator().inject(headers)
        return headers

    def attempt_span(cx: Context) -> AbstractContextManager[Any]:
        sender = TraceContextTextMapPropagator().extract(cx.headers)
        span = trace.get_current_span(sender).get_span_context()
        return trace.get_tracer("delayq").start_as_current_span(
            f"process {cx.type}",
            kind=trace.SpanKind.CONSUMER,
            # A link, because the trace of the sender may have ended long ago.
            links=[trace.Link(span)] if span.is_valid else [],
            attributes={
                "messaging.system": "delayq",
                "messaging.operation.type": "process",
                "messaging.destination.name": cx.type,
                "messaging.message.id": cx.id,
                "delayq.attempt": cx.attempt,
            },
        )
