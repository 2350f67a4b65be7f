package dev.delayq;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

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
    void theHistoryHasTheLivesOfATask() {
        app.task("a", String.class, (text, cx) -> {
            throw new Dead("no van");
        });
        app.send(Task.of("a", "x").id("x"));
        app.advance(Duration.ZERO);
        assertThrows(DelayqException.Conflict.class, () -> app.cancel("a", "x"));
        var lives = app.history("a", "x");
        assertEquals(java.util.List.of(Outcome.DEAD), lives.stream().map(Life::outcome).toList());
        assertEquals("no van", lives.get(0).error());
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
