package dev.delayq;

import static org.junit.jupiter.api.Assertions.assertEquals;

import io.opentelemetry.api.trace.SpanKind;
import io.opentelemetry.sdk.testing.junit5.OpenTelemetryExtension;
import java.time.Duration;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.RegisterExtension;

class TracingTest {
    @RegisterExtension
    static final OpenTelemetryExtension TELEMETRY = OpenTelemetryExtension.create();

    @Test
    void anAttemptIsAChildOfItsSend() {
        TestApp app = new TestApp();
        app.task("traced", String.class, (text, cx) -> {});
        var span = TELEMETRY.getOpenTelemetry().getTracer("test").spanBuilder("order").startSpan();
        try (var scope = span.makeCurrent()) {
            app.send("traced", "x");
        }
        span.end();
        app.advance(Duration.ZERO);
        var attempt = TELEMETRY.getSpans().stream().filter(one -> one.getKind() == SpanKind.CONSUMER).findFirst().orElseThrow();
        assertEquals(span.getSpanContext().getSpanId(), attempt.getParentSpanId());
        assertEquals(span.getSpanContext().getTraceId(), attempt.getTraceId());
    }
}
