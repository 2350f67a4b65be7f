package dev.delayq;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.time.Duration;
import org.junit.jupiter.api.Test;

class TestAppTest extends Sentences {
    private final TestApp app = new TestApp();

    @Override
    App app() {
        return app;
    }

    @Override
    void pass(Duration span) {
        app.advance(span);
    }

    @Test
    void theTimeIsVirtual() {
        app.task("later", String.class, (text, cx) -> {});
        app.send(Task.of("later", "x").after(Duration.ofDays(300)));
        assertEquals(0, app.advance(Duration.ofDays(299)));
        assertEquals(1, app.advance(Duration.ofDays(1)));
        assertEquals(State.DONE, app.tasks("later").get(0).state());
    }
}
