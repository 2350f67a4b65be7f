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
    trace = None  # type: ignore[assignment, unused-ignore]


def of_current_span() -> dict[str, str]:
    """The headers `traceparent` and `tracestate` of the current span, if there is one."""
    headers: dict[str, str] = {}
    if trace:
        TraceContextTextMapPropagator().inject(headers)
    return headers


def attempt_span(cx: Context) -> AbstractContextManager[Any]:
    """A span of an attempt, linked to that of the sender, whose trace may have ended long ago."""
    if not trace:
        return nullcontext()
    sender = trace.get_current_span(TraceContextTextMapPropagator().extract(cx.headers))
    links = [trace.Link(sender.get_span_context())] if sender.get_span_context().is_valid else []
    named = {"system": "delayq", "destination.name": cx.type, "message.id": cx.id}
    facts = {f"messaging.{name}": value for name, value in named.items()}
    tracer, kind = trace.get_tracer("delayq"), trace.SpanKind.CONSUMER
    span: AbstractContextManager[Any] = tracer.start_as_current_span(
        f"process {cx.type}", kind=kind, links=links, attributes=facts
    )
    return span
