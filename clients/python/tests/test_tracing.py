"""The trace context of OpenTelemetry."""

from __future__ import annotations

from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from delayq import App, Context

exporter = InMemorySpanExporter()
provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(exporter))
trace.set_tracer_provider(provider)


def test_an_attempt_is_linked_to_its_send(app: App) -> None:
    inside, headers = [], []
    exporter.clear()

    @app.task("tr.work", concurrency=2)
    async def handle(cx: Context) -> None:
        headers.append(cx.headers["traceparent"])
        inside.append(trace.get_current_span().get_span_context().span_id)

    @app.task("tr.thread")
    def plain(cx: Context) -> None:
        headers.append(cx.headers["traceparent"])
        inside.append(trace.get_current_span().get_span_context().span_id)

    app.start()
    with trace.get_tracer("test").start_as_current_span("request") as span:
        for kind in ("tr.work", "tr.thread"):
            receipt = app.send(kind, wait=10)
            assert receipt.state == "done"
        app.send("tr.work", id="own", after="1h")
        own = app.find("tr.work", "own")
        assert own and "traceparent" not in own.headers  # a repetition would be a conflict
    found = [one for one in exporter.get_finished_spans() if one.name.startswith("process")]
    assert [one.context.span_id for one in found] == inside
    assert all(f"{span.get_span_context().trace_id:032x}" in one for one in headers)
    for one in found:
        (link,) = one.links
        assert link.context.span_id == span.get_span_context().span_id
        assert one.kind == trace.SpanKind.CONSUMER
        assert one.attributes and one.attributes["messaging.destination.name"] in one.name
