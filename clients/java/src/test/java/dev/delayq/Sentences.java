package dev.delayq;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CopyOnWriteArrayList;
import org.junit.jupiter.api.Test;

/** What holds with a server and in a {@link TestApp}. */
abstract class Sentences {
    record Order(int order) {}

    /** The app; a type has a name of its own in each test. */
    abstract App app();

    /** Lets this much time pass, with the handlers at work. */
    abstract void pass(Duration span) throws Exception;

    private static final Duration HOUR = Duration.ofHours(1);

    @Test
    void aRepeatedSendIsOneTask() {
        Task task = Task.of("send.again", new Order(1)).id("a").after(HOUR);
        assertEquals(Outcome.ACCEPTED, app().send(task).outcome());
        Receipt again = app().send(task);
        assertEquals(Outcome.ALREADY_EXISTS, again.outcome());
        assertEquals(State.SCHEDULED, again.state());
        var other = Task.of("send.again", new Order(2)).id("a").after(HOUR);
        assertThrows(DelayqException.Conflict.class, () -> app().send(other));
        assertEquals(Outcome.ALREADY_EXISTS, app().send(other.onConflict(OnConflict.KEEP)).outcome());
        assertEquals(Outcome.REPLACED, app().send(other.onConflict(OnConflict.REPLACE)).outcome());
        assertEquals(2, app().find("send.again", "a").orElseThrow().json(Order.class).order());
    }

    @Test
    void badInputIsRefused() {
        assertThrows(DelayqException.InvalidInput.class, () -> app().send(Task.of("bad type", 1)));
        assertThrows(DelayqException.InvalidInput.class, () -> app().send(Task.of("bad", 1).id("a b")));
        assertThrows(DelayqException.InvalidInput.class, () -> app().send(Task.of("bad", 1).id("")));
        assertThrows(DelayqException.InvalidInput.class, () -> app().send(Task.of("bad", 1).after(Duration.ofDays(4000))));
        assertThrows(DelayqException.InvalidInput.class, () -> app().send(Task.of("bad", 1).after(HOUR.negated())));
        assertThrows(DelayqException.InvalidInput.class, () -> app().send(Task.of("bad", 1).throttle(HOUR)));
        assertThrows(DelayqException.InvalidInput.class, () -> app().send(Task.of("bad", 1).header("x", "\u00fc")));
        assertThrows(DelayqException.InvalidInput.class, () -> app().send(Task.of("bad", new Object())));
        assertThrows(DelayqException.NotFound.class, () -> app().cancel("bad", "none"));
        assertTrue(app().find("bad", "none").isEmpty());
    }

    @Test
    void aScheduledTaskIsChanged() {
        app().send(Task.of("change", 1).id("a").after(HOUR));
        var due = app().reschedule("change", "a", HOUR.multipliedBy(2));
        assertEquals(due, app().update("change", "a", 2));
        TaskInfo info = app().find("change", "a").orElseThrow();
        assertEquals(2, info.json(Integer.class));
        assertEquals(due, info.dueAt());
        assertEquals(Outcome.CANCELLED, app().cancel("change", "a"));
        assertEquals(State.CANCELLED, app().find("change", "a").orElseThrow().state());
        assertThrows(DelayqException.Conflict.class, () -> app().runNow("change", "a"));
    }

    @Test
    void manyAreSentInOrder() {
        List<Task> tasks = new ArrayList<>();
        for (int row = 0; row < 1100; row++) tasks.add(Task.of("many", row).id("row-" + row).after(HOUR));
        tasks.add(5, Task.of("many", 1).id("a b"));
        tasks.add(Task.of("other", "x".getBytes()).after(HOUR));
        List<SendResult> results = app().sendAll(tasks);
        assertEquals(1102, results.size());
        assertTrue(results.get(5).error() instanceof DelayqException.InvalidInput);
        assertEquals("row-1099", results.get(1100).receipt().id());
        assertTrue(results.get(1101).isAccepted());
    }

    @Test
    void failuresAreRetriedAndEndAsTheySay() throws Exception {
        List<String> seen = new CopyOnWriteArrayList<>();
        Retry retry = Retry.fixed(2, Duration.ofMillis(100));
        app().task("fail", String.class, TaskOptions.defaults().retry(retry), (what, cx) -> {
            seen.add(what + cx.attempt() + cx.lastError());
            if (what.equals("dead")) throw new Dead("hopeless");
            if (what.equals("later") && seen.stream().filter(one -> one.startsWith("later")).count() < 2) {
                throw new Later(Duration.ofMillis(100));
            }
            if (what.equals("twice") || (what.equals("once") && cx.attempt() == 1)) throw new IllegalStateException("no van");
        });
        for (String what : List.of("once", "twice", "dead", "later")) app().send(Task.of("fail", what).id(what));
        app().send(Task.of("fail", 7).id("number"));
        pass(Duration.ofSeconds(2));
        assertTrue(seen.contains("once2java.lang.IllegalStateException: no van"), seen.toString());
        assertTrue(seen.contains("later1null"), seen.toString());
        assertEquals(State.DONE, app().find("fail", "once").orElseThrow().state());
        assertEquals(State.DONE, app().find("fail", "later").orElseThrow().state());
        assertEquals(State.DEAD, app().find("fail", "twice").orElseThrow().state());
        assertEquals("hopeless", app().find("fail", "dead").orElseThrow().lastError());
        TaskInfo unread = app().find("fail", "number").orElseThrow();
        assertEquals(State.DEAD, unread.state());
        assertTrue(unread.lastError().contains("the message is not to be read"), unread.lastError());
    }

    @Test
    void aReplyAndFollowUpsComeWithTheEnd() throws Exception {
        List<String> seen = new CopyOnWriteArrayList<>();
        app().taskWithReply("ask", String.class, TaskOptions.defaults(), (article, cx) -> {
            cx.then(Task.of("told", article).id("of-" + cx.id()).header("Shop", "berlin"));
            return Map.of("price", article.length());
        });
        app().taskWithReply("raw", byte[].class, TaskOptions.defaults(), (bytes, cx) -> bytes);
        app().task("told", String.class, (article, cx) -> seen.add(article + cx.headers().get("shop")));
        app().send(Task.of("ask", "lamp").id("a/1"));
        app().send(Task.of("raw", new byte[] {1, -1}).id(".."));
        pass(Duration.ofSeconds(1));
        assertEquals(Map.of("price", 4), app().reply("ask", "a/1", Duration.ZERO).json(Map.class));
        assertEquals(-1, app().reply("raw", "..", Duration.ZERO).body()[1]);
        assertEquals(List.of("lampberlin"), seen);
        app().send(Task.of("ask", "lamp").id("cancelled").after(HOUR));
        assertTrue(app().reply("ask", "cancelled", Duration.ZERO).isPending());
        app().cancel("ask", "cancelled");
        var gone = assertThrows(DelayqException.class, () -> app().reply("ask", "cancelled", Duration.ZERO));
        assertEquals("cancelled", gone.kind());
    }

    @Test
    void aBatchEndsWithOneMoreTask() throws Exception {
        List<String> seen = new CopyOnWriteArrayList<>();
        app().task("row", Integer.class, (row, cx) -> seen.add("row"));
        app().task("report", Integer.class, (row, cx) -> seen.add(cx.headers().get("delayq-batch")));
        app().sendBatch("import-7", List.of(Task.of("row", 1), Task.of("row", 2)), Task.of("report", 7));
        assertEquals(State.WAITING, app().batch("import-7").orElseThrow().state());
        assertTrue(app().batch("none").isEmpty());
        pass(Duration.ofSeconds(4));
        assertEquals(3, seen.size(), seen.toString());
        assertTrue(seen.get(2).contains("\"done\":2"), seen.toString());
    }

    @Test
    void aDebouncedTaskHasTheLastMessage() {
        Task task = Task.of("index", 1).id("doc").debounce(HOUR, HOUR.multipliedBy(2));
        app().send(task);
        Receipt second = app().send(Task.of("index", 2).id("doc").debounce(HOUR, HOUR.multipliedBy(2)));
        assertEquals(Outcome.REPLACED, second.outcome());
        assertEquals(2, app().find("index", "doc").orElseThrow().json(Integer.class));
        String id = app().send(Task.of("index", 1).id("t").throttle(HOUR)).id();
        assertTrue(id.startsWith("t@"), id);
        assertEquals(Outcome.ALREADY_EXISTS, app().send(Task.of("index", 2).id("t").throttle(HOUR)).outcome());
    }
}
