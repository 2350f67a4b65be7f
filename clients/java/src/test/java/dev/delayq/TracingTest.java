package dev.delayq;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;

import io.opentelemetry.api.trace.SpanKind;
import io.opentelemetry.sdk.testing.junit5.OpenTelemetryExtension;
import java.time.Duration;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.RegisterExtension;

class TracingTest {
    @RegisterExtension
    static final OpenTelemetryExtension TELEMETRY = OpenTelemetryExtension.create();

    @Test
    void anAttemptIsLinkedToItsSend() {
        TestApp app = new TestApp();
        app.task("traced", String.class, (text, cx) -> {});
        var span = TELEMETRY.getOpenTelemetry().getTracer("test").spanBuilder("order").startSpan();
        try (var scope = span.makeCurrent()) {
            app.send("traced", "x");
        }
        span.end();
        app.advance(Duration.ZERO);
        var attempt = TELEMETRY.getSpans().stream().filter(one -> one.getKind() == SpanKind.CONSUMER).findFirst().orElseThrow();
        assertEquals(span.getSpanContext().getSpanId(), attempt.getLinks().get(0).getSpanContext().getSpanId());
        assertNotEquals(span.getSpanContext().getTraceId(), attempt.getTraceId());
    }

    @Test
    void theSameTaskFromAnotherSpanIsTheSame() {
        TestApp app = new TestApp();
        for (String name : new String[] {"one", "two"}) {
            var span = TELEMETRY.getOpenTelemetry().getTracer("test").spanBuilder(name).startSpan();
            try (var scope = span.makeCurrent()) {
                app.send(Task.of("traced", "x").id("own").after(Duration.ofHours(1)));
            }
            span.end();
        }
        assertEquals(null, app.tasks("traced").get(0).headers().get("traceparent"));
    }
}
