package dev.delayq;

import io.opentelemetry.api.GlobalOpenTelemetry;
import io.opentelemetry.api.trace.Span;
import io.opentelemetry.api.trace.SpanKind;
import io.opentelemetry.api.trace.StatusCode;
import io.opentelemetry.api.trace.propagation.W3CTraceContextPropagator;
import io.opentelemetry.context.Context;
import io.opentelemetry.context.Scope;
import io.opentelemetry.context.propagation.TextMapGetter;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.concurrent.Callable;

/** The trace context in the headers of tasks, which needs the API of OpenTelemetry. */
final class Tracing {
    private Tracing() {}

    /** The task with the context of the present span, unless it has one. */
    static Task inject(Task task) {
        if (task.headers.containsKey("traceparent")) return task;
        Map<String, String> found = new LinkedHashMap<>();
        W3CTraceContextPropagator.getInstance().inject(Context.current(), found, Map::put);
        for (var header : found.entrySet()) task = task.header(header.getKey(), header.getValue());
        return task;
    }

    /** Runs an attempt within a span that is linked to that of the sender, whose trace may have ended long ago. */
    static Object around(TaskContext cx, Callable<Object> next) throws Exception {
        Context sender = W3CTraceContextPropagator.getInstance().extract(Context.root(), cx.headers(), new Getter());
        Span span = GlobalOpenTelemetry.getTracer("dev.delayq")
                .spanBuilder("process " + cx.type())
                .setNoParent()
                .addLink(Span.fromContext(sender).getSpanContext())
                .setSpanKind(SpanKind.CONSUMER)
                .setAttribute("messaging.system", "delayq")
                .setAttribute("messaging.operation.type", "process")
                .setAttribute("messaging.destination.name", cx.type())
                .setAttribute("messaging.message.id", cx.id())
                .setAttribute("delayq.attempt", cx.attempt())
                .startSpan();
        try (Scope scope = span.makeCurrent()) {
            return next.call();
        } catch (Exception | Error error) {
            span.recordException(error);
            span.setStatus(StatusCode.ERROR);
            throw error;
        } finally {
            span.end();
        }
    }

    private static final class Getter implements TextMapGetter<Map<String, String>> {
        @Override
        public Iterable<String> keys(Map<String, String> headers) {
            return headers.keySet();
        }

        @Override
        public String get(Map<String, String> headers, String name) {
            return headers == null ? null : headers.get(name);
        }
    }
}
