package dev.delayq;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.time.ZoneId;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

class ServerTest extends Sentences {
    private static Server server;
    private App app;

    @BeforeAll
    static void begin() throws Exception {
        server = new Server();
    }

    @AfterAll
    static void end() throws Exception {
        if (server != null) server.close();
    }

    @BeforeEach
    void connect() {
        app = server.app().build();
    }

    @AfterEach
    void disconnect() {
        app.close();
    }

    @Override
    App app() {
        return app;
    }

    @Override
    void pass(Duration span) throws Exception {
        app.start();
        TimeUnit.MILLISECONDS.sleep(span.toMillis());
    }

    /** Starts a handler that waits, and tells how it was stopped. */
    private LinkedBlockingQueue<String> sleeper(String type, Duration lock) {
        LinkedBlockingQueue<String> seen = new LinkedBlockingQueue<>();
        app.task(type, String.class, TaskOptions.defaults().lock(lock), (text, cx) -> {
            cx.onStop(why -> seen.add(why.name()));
            seen.add("begins");
            Thread.sleep(60_000);
        });
        app.start();
        return seen;
    }

    private static void await(String type, String id, App app, State state) throws Exception {
        for (int tries = 0; tries < 300 && !app.find(type, id).orElseThrow().state().equals(state); tries++) {
            TimeUnit.MILLISECONDS.sleep(50);
        }
        assertEquals(state, app.find(type, id).orElseThrow().state());
    }

    @Test
    void aCancelInterruptsTheHandler() throws Exception {
        var seen = sleeper("cancel", Duration.ofSeconds(1));
        app.send(Task.of("cancel", "x").id("a"));
        assertEquals("begins", seen.poll(5, TimeUnit.SECONDS));
        assertEquals(Outcome.RUNNING, app.cancel("cancel", "a"));
        assertEquals("CANCELLED", seen.poll(5, TimeUnit.SECONDS));
        await("cancel", "a", app, State.CANCELLED);
    }

    @Test
    void aStopGivesBack() throws Exception {
        var seen = sleeper("stop", Duration.ofSeconds(30));
        app.send(Task.of("stop", "x").id("a"));
        assertEquals("begins", seen.poll(5, TimeUnit.SECONDS));
        app.stop();
        assertEquals("SHUTDOWN", seen.poll(5, TimeUnit.SECONDS));
        TaskInfo info = app.find("stop", "a").orElseThrow();
        assertEquals(State.SCHEDULED, info.state());
        assertEquals(0, info.attempt());
    }

    @Test
    void aServerThatIsAwayEndsTheLock() throws Exception {
        try (Server other = new Server(); App away = other.app().patience(Duration.ofSeconds(20)).build()) {
            LinkedBlockingQueue<String> seen = new LinkedBlockingQueue<>();
            AtomicInteger begun = new AtomicInteger(); // a server that dies may use up no attempt
            away.task("lose", String.class, TaskOptions.defaults().lock(Duration.ofSeconds(1)), (text, cx) -> {
                cx.onStop(why -> seen.add(why.name()));
                seen.add("begins");
                if (begun.incrementAndGet() == 1) Thread.sleep(60_000);
            });
            away.start();
            away.send(Task.of("lose", "x").id("a"));
            assertEquals("begins", seen.poll(5, TimeUnit.SECONDS));
            other.kill();
            assertEquals("LOST", seen.poll(5, TimeUnit.SECONDS));
            CompletableFuture<Receipt> sent = away.sendAsync(Task.of("other", 1).id("b"));
            TimeUnit.MILLISECONDS.sleep(300);
            assertFalse(sent.isDone());
            other.start();
            assertEquals(Outcome.ACCEPTED, sent.get(20, TimeUnit.SECONDS).outcome());
            assertEquals("begins", seen.poll(20, TimeUnit.SECONDS));
            await("lose", "a", away, State.DONE);
        }
    }

    @Test
    void anEndIsRepeatedWhileTheServerIsAway() throws Exception {
        try (Server other = new Server(); App away = other.app().build()) {
            CountDownLatch begun = new CountDownLatch(1);
            CountDownLatch killed = new CountDownLatch(1);
            away.task("end", String.class, (text, cx) -> {
                begun.countDown();
                killed.await();
            });
            away.start();
            away.send(Task.of("end", "x").id("a"));
            assertTrue(begun.await(5, TimeUnit.SECONDS));
            other.kill();
            killed.countDown();
            TimeUnit.MILLISECONDS.sleep(500);
            other.start();
            await("end", "a", away, State.DONE);
            assertEquals(1, away.find("end", "a").orElseThrow().attempt());
        }
    }

    @Test
    void lostAnswersDoNoHarm() throws Exception {
        App.Builder options = server.app();
        Wire http = new Wire.Http(java.net.http.HttpClient.newHttpClient(), server.url, Server.TOKEN);
        AtomicInteger requests = new AtomicInteger();
        Wire lossy = (request, timeout) -> {
            boolean isLost = !request.path().contains("/claim") && requests.incrementAndGet() % 2 == 1;
            return http.send(request, timeout).thenApply(answer -> {
                if (isLost) throw new java.io.UncheckedIOException(new java.io.IOException("cut off"));
                return answer;
            });
        };
        List<Integer> attempts = new java.util.concurrent.CopyOnWriteArrayList<>();
        try (App far = new App(options, lossy)) {
            far.task("lossy", Integer.class, TaskOptions.defaults().concurrency(4), (row, cx) -> attempts.add(cx.attempt()));
            far.start();
            for (int row = 0; row < 10; row++) far.send("lossy", row);
            List<Task> more = java.util.stream.IntStream.range(0, 10).mapToObj(row -> Task.of("lossy", row)).toList();
            for (SendResult result : far.sendAll(more)) {
                assertTrue(result.isAccepted());
                await("lossy", result.receipt().id(), app, State.DONE);
            }
            far.setRecurring("lossy", "1h", Task.of("lossy", 1));
            far.removeRecurring("lossy");
        }
        assertEquals(java.util.Collections.nCopies(20, 1), attempts);
    }

    @Test
    void recurringTasksAreKept() {
        Recurring set = app.setRecurring("nightly", "0 9 * * *", ZoneId.of("Europe/Berlin"), Task.of("report.daily", 1));
        assertEquals("Europe/Berlin", set.zone());
        assertTrue(app.pauseRecurring("nightly").paused());
        assertFalse(app.resumeRecurring("nightly").paused());
        assertEquals(List.of("nightly"), app.listRecurring().stream().map(Recurring::id).toList());
        app.removeRecurring("nightly");
        assertThrows(DelayqException.NotFound.class, () -> app.removeRecurring("nightly"));
    }

    @Test
    void mistakesAreToldAtOnce() {
        for (String url : List.of("", "127.0.0.1:7880", "delayq://x/default", "http://h/v1/default?x=1", "http://h/other")) {
            assertThrows(DelayqException.InvalidInput.class, () -> new App(url, "dq_x"), url);
        }
        assertThrows(DelayqException.InvalidInput.class, () -> new App(server.url, " "));
        App stranger = new App(server.url, "dq_nobody_x");
        assertThrows(DelayqException.Unauthorized.class, () -> stranger.send("order.cancel", 1));
        App secure = new App(server.url.replace("http:", "https:"), Server.TOKEN);
        DelayqException noTls = assertThrows(DelayqException.class, () -> secure.send("order.cancel", 1));
        assertTrue(noTls.detail().contains("http://"), noTls.detail());
        App away = App.builder().url("http://127.0.0.1:1").token("dq_x").patience(Duration.ZERO).build();
        var error = assertThrows(DelayqException.Unavailable.class, () -> away.send("order.cancel", 1));
        assertFalse(error.isInDoubt());
    }
}
