import com.fasterxml.jackson.annotation.JsonInclude;
import com.fasterxml.jackson.annotation.JsonProperty;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.SerializationFeature;
import com.fasterxml.jackson.databind.json.JsonMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import dev.delayq.App;
import dev.delayq.Dead;
import dev.delayq.DelayqException;
import dev.delayq.Later;
import dev.delayq.OnConflict;
import dev.delayq.Receipt;
import dev.delayq.Reply;
import dev.delayq.Retry;
import dev.delayq.RetryAfter;
import dev.delayq.Task;
import dev.delayq.TaskContext;
import dev.delayq.TaskInfo;
import dev.delayq.TaskOptions;
import dev.delayq.Webhook;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.time.Instant;
import java.time.ZoneId;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** Calls the client as lines of JSON say. */
public class Driver {
    private static final PrintStream OUT = new PrintStream(new java.io.FileOutputStream(java.io.FileDescriptor.out), false, StandardCharsets.UTF_8);
    private static final ObjectMapper JSON = JsonMapper.builder()
            .addModule(new com.fasterxml.jackson.databind.module.SimpleModule().addSerializer(Instant.class,
                    new com.fasterxml.jackson.databind.ser.std.StdSerializer<>(Instant.class) {
                        @Override
                        public void serialize(Instant time, com.fasterxml.jackson.core.JsonGenerator out,
                                com.fasterxml.jackson.databind.SerializerProvider provider) throws IOException {
                            out.writeNumber(time.toEpochMilli());
                        }
                    }))
            .serializationInclusion(JsonInclude.Include.NON_NULL)
            .propertyNamingStrategy(com.fasterxml.jackson.databind.PropertyNamingStrategies.SNAKE_CASE)
            .disable(SerializationFeature.FAIL_ON_EMPTY_BEANS)
            .build();
    private static final Map<String, AtomicInteger> LATERS = new ConcurrentHashMap<>();
    private static App app;
    private static volatile boolean works;

    /** What a handler is to do. */
    record Order(
            @JsonProperty(value = "do", required = true) String what, JsonNode with, String error, Integer times,
            @JsonProperty("for") String span, String after, String type, JsonNode message, String id) {}

    public static void main(String[] arguments) throws Exception {
        ExecutorService calls = Executors.newCachedThreadPool(work -> {
            Thread thread = new Thread(work);
            thread.setDaemon(true);
            return thread;
        });
        var in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            if (line.isBlank()) continue;
            JsonNode asked = JSON.readTree(line);
            boolean isOrdered = List.of("app", "work").contains(asked.path("do").asText());
            if (isOrdered) answer(asked);
            else calls.execute(() -> answer(asked));
        }
        if (works) app.stop();
    }

    private static void answer(JsonNode asked) {
        ObjectNode said = JSON.createObjectNode();
        said.set("n", asked.get("n"));
        try {
            said.set("ok", JSON.valueToTree(call(asked)));
        } catch (DelayqException error) {
            said.set("error", JSON.valueToTree(error(error)));
        } catch (Exception error) {
            error.printStackTrace();
            said.set("error", JSON.valueToTree(Map.of("kind", "driver", "detail", String.valueOf(error))));
        }
        print(said);
    }

    private static Map<String, Object> error(DelayqException error) {
        return Map.of("kind", error.kind(), "status", error.status(), "is_repeatable", error.isRepeatable(),
                "detail", error.detail());
    }

    private static synchronized void print(Object line) {
        try {
            OUT.println(JSON.writeValueAsString(line));
            OUT.flush();
        } catch (IOException error) {
            throw new IllegalStateException(error);
        }
    }

    private static synchronized App app(JsonNode asked) {
        if (app != null) return app;
        App.Builder builder = App.builder();
        if (asked.hasNonNull("url")) builder.url(asked.get("url").asText());
        if (asked.hasNonNull("token")) builder.token(asked.get("token").asText());
        if (asked.hasNonNull("timeout")) builder.timeout(span(asked, "timeout"));
        if (asked.hasNonNull("patience")) builder.patience(span(asked, "patience"));
        if (asked.hasNonNull("grace")) builder.grace(span(asked, "grace"));
        app = builder.build();
        return app;
    }

    private static Object call(JsonNode asked) throws Exception {
        String what = asked.path("do").asText();
        if (what.equals("verify")) return verify(asked);
        if (what.equals("app")) {
            app(asked);
            return Map.of();
        }
        App app = app(JSON.createObjectNode());
        String type = asked.path("type").asText();
        String id = asked.path("id").asText();
        return switch (what) {
            case "send" -> asked.hasNonNull("wait")
                    ? receipt(app.sendAndWait(task(asked), span(asked, "wait")))
                    : receipt(app.send(task(asked)));
            case "send_many" -> app.sendAll(tasks(asked.get("items"))).stream()
                    .map(one -> one.isAccepted() ? receipt(one.receipt()) : Map.of("error", error(one.error()))).toList();
            case "cancel" -> Map.of("outcome", app.cancel(type, id));
            case "run_now" -> moved(app.runNow(type, id));
            case "reschedule" -> moved(asked.hasNonNull("at")
                    ? app.reschedule(type, id, time(asked, "at")) : app.reschedule(type, id, span(asked, "after")));
            case "update" -> moved(app.update(type, id, asked.get("message")));
            case "find" -> app.find(type, id).map(TaskInfo.class::cast).orElse(null);
            case "reply" -> reply(app.reply(type, id, asked.hasNonNull("wait") ? span(asked, "wait") : Duration.ZERO));
            case "batch" -> app.sendBatch(asked.path("name").asText(), tasks(asked.get("tasks")), task(asked.get("then")));
            case "batch_state" -> app.batch(asked.path("name").asText()).orElse(null);
            case "batch_cancel" -> app.cancelBatch(asked.path("name").asText());
            case "recurring" -> app.setRecurring(id, asked.path("every").asText(),
                    asked.hasNonNull("zone") ? ZoneId.of(asked.get("zone").asText()) : null,
                    Task.of(type, asked.get("message")));
            case "recurring_remove" -> {
                app.removeRecurring(id);
                yield Map.of();
            }
            case "recurring_pause" -> app.pauseRecurring(id);
            case "recurring_resume" -> app.resumeRecurring(id);
            case "recurring_list" -> app.listRecurring();
            case "history" -> app.history(type, id);
            case "work" -> work(app, asked);
            case "stop" -> {
                app.stop();
                works = false;
                yield Map.of();
            }
            default -> throw new IllegalArgumentException("do=" + what);
        };
    }

    private static Map<String, Object> moved(Instant dueAt) {
        return Map.of("outcome", "changed", "due_at", dueAt);
    }

    private static Object receipt(Receipt receipt) {
        ObjectNode said = JSON.createObjectNode();
        said.put("id", receipt.id()).put("outcome", receipt.outcome().text());
        if (receipt.dueAt() != null) said.put("due_at", receipt.dueAt().toEpochMilli());
        if (receipt.state() != null) said.put("state", receipt.state().text());
        if (receipt.reply() != null) said.set("reply", JSON.valueToTree(reply(receipt.reply())));
        return said;
    }

    private static Object reply(Reply reply) {
        if (!reply.isPresent()) return null;
        boolean isJson = reply.contentType() != null && reply.contentType().startsWith("application/json");
        return isJson ? reply.json(JsonNode.class) : new String(reply.body(), StandardCharsets.UTF_8);
    }

    private static List<Task> tasks(JsonNode items) {
        List<Task> tasks = new ArrayList<>();
        items.forEach(item -> tasks.add(task(item)));
        return tasks;
    }

    private static Task task(JsonNode asked) {
        Task task = Task.of(asked.path("type").asText(), asked.get("message"));
        for (Iterator<Map.Entry<String, JsonNode>> all = asked.fields(); all.hasNext(); ) {
            Map.Entry<String, JsonNode> one = all.next();
            String text = one.getValue().asText();
            if (one.getValue().isNull()) continue;
            task = switch (one.getKey()) {
                case "id" -> task.id(text);
                case "after" -> task.after(span(text));
                case "at" -> task.at(time(asked, "at"));
                case "on_conflict" -> task.onConflict(OnConflict.valueOf(text.toUpperCase(Locale.ROOT)));
                case "debounce" -> task.debounce(span(text), asked.hasNonNull("max_wait") ? span(asked, "max_wait") : null);
                case "throttle" -> task.throttle(span(text));
                case "expires_after" -> task.expiresAfter(span(text));
                case "expires_at" -> task.expiresAt(time(asked, "expires_at"));
                case "group" -> task.group(text);
                case "project" -> task.project(text);
                case "again_if_running" -> one.getValue().asBoolean() ? task.againIfRunning() : task;
                default -> task;
            };
        }
        for (Iterator<Map.Entry<String, JsonNode>> all = asked.path("headers").fields(); all.hasNext(); ) {
            Map.Entry<String, JsonNode> header = all.next();
            task = task.header(header.getKey(), header.getValue().asText());
        }
        return task;
    }

    private static Object verify(JsonNode asked) {
        List<String> secrets = new ArrayList<>();
        asked.path("secrets").forEach(secret -> secrets.add(secret.asText()));
        Map<String, ?> headers = JSON.convertValue(asked.path("headers"), Map.class);
        byte[] body = asked.path("body").asText().getBytes(StandardCharsets.UTF_8);
        Webhook.Hook push = new Webhook(secrets.toArray(String[]::new)).verify(headers, body);
        ObjectNode said = JSON.createObjectNode();
        return said.put("id", push.id()).put("type", push.type());
    }

    private static Object work(App app, JsonNode asked) {
        TaskOptions options = TaskOptions.defaults().concurrency(asked.path("concurrency").asInt(1));
        if (asked.hasNonNull("lock")) options = options.lock(span(asked, "lock"));
        if (asked.hasNonNull("retry")) {
            JsonNode retry = asked.get("retry");
            Retry usual = Retry.max(retry.path("max").asInt(5));
            options = options.retry(new Retry(usual.max(), retry.has("wait") ? span(retry, "wait") : usual.firstWait(),
                    retry.has("max_wait") ? span(retry, "max_wait") : usual.maxWait(), retry.path("fixed").asBoolean()));
        }
        app.taskWithReply(asked.path("type").asText(), Order.class, options, Driver::handle);
        if (!works) {
            works = true;
            Thread worker = new Thread(() -> {
                app.run();
                System.exit(0);
            });
            worker.setDaemon(true);
            app.start();
            worker.start();
        }
        return Map.of();
    }

    private static Object handle(Order order, TaskContext cx) throws Exception {
        ObjectNode start = JSON.createObjectNode();
        start.put("event", "start").put("type", cx.type()).put("id", cx.id()).put("attempt", cx.attempt());
        start.put("fence", cx.fence()).put("last_error", cx.lastError()).put("at", System.currentTimeMillis());
        start.set("headers", JSON.valueToTree(cx.headers()));
        start.set("message", JSON.valueToTree(raw(order)));
        print(start);
        cx.onStop(why -> {
            String event = why.name().toLowerCase(Locale.ROOT);
            if (!event.equals("shutdown")) print(Map.of("event", event, "id", cx.id()));
        });
        String how = "raised";
        try {
            Object reply = act(order, cx);
            how = "returned";
            return reply;
        } finally {
            print(Map.of("event", "end", "id", cx.id(), "how", how, "at", System.currentTimeMillis()));
        }
    }

    private static ObjectNode raw(Order order) {
        ObjectNode raw = JSON.createObjectNode().put("do", order.what);
        if (order.with != null) raw.set("with", order.with);
        if (order.error != null) raw.put("error", order.error);
        if (order.times != null) raw.put("times", order.times);
        if (order.span != null) raw.put("for", order.span);
        if (order.after != null) raw.put("after", order.after);
        if (order.type != null) raw.put("type", order.type);
        if (order.message != null) raw.set("message", order.message);
        if (order.id != null) raw.put("id", order.id);
        return raw;
    }

    private static Object act(Order order, TaskContext cx) throws Exception {
        int times = order.times == null ? 0 : order.times;
        boolean isEarly = cx.attempt() <= times;
        switch (order.what) {
            case "reply":
                return order.with;
            case "echo":
                return raw(order);
            case "fail":
                if (isEarly) throw new IllegalStateException(order.error);
                return null;
            case "retry_after":
                if (isEarly) throw new RetryAfter(span(order.after), order.error);
                return null;
            case "dead":
                throw new Dead(order.error);
            case "later":
                if (LATERS.computeIfAbsent(cx.id(), id -> new AtomicInteger()).incrementAndGet() <= times) {
                    throw new Later(span(order.after));
                }
                return null;
            case "sleep":
                Thread.sleep(span(order.span).toMillis());
                return null;
            case "block":
                long end = System.nanoTime() + span(order.span).toNanos();
                while (System.nanoTime() < end) {
                    java.util.concurrent.locks.LockSupport.parkNanos(end - System.nanoTime());
                    Thread.interrupted();
                }
                return null;
            case "then":
                Task next = Task.of(order.type, order.message);
                cx.then(order.id == null ? next : next.id(order.id));
                return null;
            case "send":
                app.send(order.type, order.message);
                return null;
            default:
                return null;
        }
    }

    private static final Pattern SPAN = Pattern.compile("(\\d+)(ms|s|m|h|d)?");

    private static Duration span(JsonNode asked, String name) {
        return span(asked.get(name).asText());
    }

    private static Duration span(String text) {
        Matcher parts = SPAN.matcher(text.strip());
        if (!parts.matches()) throw new IllegalArgumentException("a span: " + text);
        long number = Long.parseLong(parts.group(1));
        return switch (parts.group(2) == null ? "ms" : parts.group(2)) {
            case "s" -> Duration.ofSeconds(number);
            case "m" -> Duration.ofMinutes(number);
            case "h" -> Duration.ofHours(number);
            case "d" -> Duration.ofDays(number);
            default -> Duration.ofMillis(number);
        };
    }

    private static Instant time(JsonNode asked, String name) {
        return Instant.ofEpochMilli(asked.get(name).asLong());
    }
}
