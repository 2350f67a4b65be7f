package dev.delayq;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Queue;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import java.util.function.BooleanSupplier;
import java.util.function.IntFunction;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/** A worker whose server answers late, wrongly or not at all. */
class FaultTest {
    private static final Object NO_PAUSE = new Object();

    private final Map<String, List<String>> seen = new ConcurrentHashMap<>();
    /** What the nth request of a kind is answered: text, a status, or the time that the answer is late. */
    private final Map<String, IntFunction<Object>> how = new ConcurrentHashMap<>();
    private final Queue<String> tasks = new ConcurrentLinkedQueue<>();
    private HttpServer server;
    private App app;

    @BeforeEach
    void begin() throws Exception {
        server = HttpServer.create(new InetSocketAddress("127.0.0.1", 0), 0);
        server.setExecutor(Executors.newCachedThreadPool());
        server.createContext("/", this::answer);
        server.start();
        app = App.builder().url("http://127.0.0.1:" + server.getAddress().getPort()).token("t")
                .patience(Duration.ofSeconds(3)).grace(Duration.ofMillis(100)).build();
    }

    @AfterEach
    void end() {
        app.close();
        server.stop(0);
    }

    private void answer(HttpExchange exchange) throws IOException {
        String path = exchange.getRequestURI().getPath();
        String what = path.substring(path.lastIndexOf('/') + 1);
        String body = new String(exchange.getRequestBody().readAllBytes(), StandardCharsets.UTF_8);
        List<String> all = seen.computeIfAbsent(what, kind -> new CopyOnWriteArrayList<>());
        all.add(exchange.getRequestURI() + body);
        Object asked = how.getOrDefault(what, number -> null).apply(all.size());
        String id = what.equals("claim") ? tasks.poll() : null;
        if (what.equals("claim") && id == null && asked != NO_PAUSE) asked = Duration.ofMillis(300);
        if (asked instanceof Duration late) sleep(late);
        int status = asked instanceof Integer number ? number : 200;
        String text = asked instanceof String said ? said : "{\"outcome\":\"extended\",\"tasks\":[" + (id == null ? ""
                : "{\"type\":\"a\",\"id\":\"" + id + "\",\"lock\":\"1-0\",\"fence\":1,\"attempt\":1,\"due_at\":0,"
                + "\"submitted_at\":0,\"headers\":{},\"message\":\"1\"}") + "]}";
        byte[] bytes = text.getBytes(StandardCharsets.UTF_8);
        exchange.sendResponseHeaders(status, bytes.length);
        exchange.getResponseBody().write(bytes);
        exchange.close();
    }

    private static void sleep(Duration span) {
        try {
            Thread.sleep(span.toMillis());
        } catch (InterruptedException end) {
            Thread.currentThread().interrupt();
        }
    }

    private void work(Handler<Integer> handler) {
        app.task("a", Integer.class, TaskOptions.defaults().lock(Duration.ofSeconds(2)).retry(Retry.max(3)), handler);
        app.start();
    }

    private static void until(BooleanSupplier is) throws Exception {
        for (int tries = 0; tries < 400 && !is.getAsBoolean(); tries++) TimeUnit.MILLISECONDS.sleep(20);
        assertTrue(is.getAsBoolean());
    }

    private List<String> of(String what) {
        return seen.getOrDefault(what, List.of());
    }

    private void oneBadExtensionDoesNoHarm(Object fault) throws Exception {
        tasks.add("x");
        how.put("extend", number -> number == 1 ? fault : null);
        var stops = new CopyOnWriteArrayList<Stop>();
        work((message, cx) -> {
            cx.onStop(stops::add);
            Thread.sleep(5000);
        });
        until(() -> !of("done").isEmpty());
        assertEquals(List.of(), stops);
        assertTrue(of("extend").size() >= 3);
    }

    @Test
    void anExtensionThatHangsDoesNotCostTheLock() throws Exception {
        oneBadExtensionDoesNoHarm(Duration.ofSeconds(20));
    }

    @Test
    void thePageOfAProxyDoesNotCostTheLock() throws Exception {
        oneBadExtensionDoesNoHarm("<html>");
    }

    @Test
    void aServerThatAnswersAtOnceIsNotAskedWithoutAPause() throws Exception {
        how.put("claim", number -> NO_PAUSE);
        work((message, cx) -> {});
        TimeUnit.SECONDS.sleep(2);
        assertTrue(of("claim").size() >= 1 && of("claim").size() <= 6, "" + of("claim").size());
    }

    @Test
    void anEndThatIsRefusedIsAFailureByTheRetryOfTheHandler() throws Exception {
        tasks.add("x");
        how.put("done", number -> 413);
        work((message, cx) -> {});
        until(() -> !of("fail").isEmpty());
        assertTrue(of("fail").get(0).contains("max_attempts=3"), of("fail").get(0));
        assertTrue(of("fail").get(0).contains("retry_after="), of("fail").get(0));
    }

    @Test
    void aPageThatIsMissingIsNoTaskThatIsUnknown() {
        how.put("x", number -> 404);
        DelayqException error = assertThrows(DelayqException.class, () -> app.find("a", "x"));
        assertFalse(error instanceof DelayqException.NotFound);
    }
}
