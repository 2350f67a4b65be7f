package dev.delayq;

import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.util.RawValue;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.time.Instant;
import java.util.LinkedHashMap;
import java.util.Locale;
import java.util.Map;

/** A task to send. It never changes: each method returns a task with one more option. */
public final class Task {
    final String type;
    final Object message;
    /** The options, by their names on the wire. */
    final Map<String, Object> options;
    final Map<String, String> headers;

    private Task(String type, Object message, Map<String, Object> options, Map<String, String> headers) {
        this.type = type;
        this.message = message;
        this.options = options;
        this.headers = headers;
    }

    /** A task whose message is JSON, or the bytes of a {@code byte[]}. */
    public static Task of(String type, Object message) {
        return new Task(type, message, Map.of(), Map.of());
    }

    /** The id: a repeated send is then the same task. Without one each send is a task of its own. */
    public Task id(String id) {
        return with("id", id);
    }

    /** Due after this delay, counted from the acceptance. */
    public Task after(Duration delay) {
        return with("delay", delay.toMillis());
    }

    /** Due at this time. */
    public Task at(Instant time) {
        return with("at", time.toEpochMilli());
    }

    public Task onConflict(OnConflict what) {
        return with("on_conflict", what.name().toLowerCase(Locale.ROOT));
    }

    /** Due once no other send of this id has come for this long, and at the latest after {@code maxWait}. */
    public Task debounce(Duration quiet, Duration maxWait) {
        return with("debounce", quiet.toMillis()).with("max_wait", maxWait.toMillis());
    }

    /** One task for each id and window of this length, due at the end of the window. */
    public Task throttle(Duration window) {
        return with("throttle", window.toMillis());
    }

    /** Dropped unless it starts within this span after its due time. */
    public Task expiresAfter(Duration span) {
        return with("expires_after", span.toMillis());
    }

    /** Dropped unless it starts before this time. */
    public Task expiresAt(Instant time) {
        return with("expires_at", time.toEpochMilli());
    }

    public Task group(String group) {
        return with("group", group);
    }

    public Task project(String project) {
        return with("project", project);
    }

    /** If a task of this id runs now, it runs again afterwards. */
    public Task againIfRunning() {
        return with("again_if_running", true);
    }

    public Task header(String name, String value) {
        Map<String, String> more = new LinkedHashMap<>(headers);
        more.put(name.toLowerCase(Locale.ROOT), value);
        return new Task(type, message, options, more);
    }

    private Task with(String name, Object value) {
        Map<String, Object> more = new LinkedHashMap<>(options);
        more.put(name, value);
        return new Task(type, message, more, headers);
    }

    String id() {
        return (String) options.get("id");
    }

    /** With a random id, unless it has one, or the server has to refuse that it has none. */
    Task named() {
        if (id() != null || options.containsKey("debounce") || options.containsKey("throttle")) return this;
        return id(Json.randomId());
    }

    byte[] body(ObjectMapper mapper) {
        return message instanceof byte[] bytes ? bytes : Json.write(mapper, message);
    }

    /** The form of a line of {@code /bulk}, of a batch and of a follow-up. */
    Map<String, Object> line(ObjectMapper mapper, boolean withType) {
        Map<String, Object> line = new LinkedHashMap<>(options);
        if (withType) line.put("type", type);
        Map<String, String> all = new LinkedHashMap<>(headers);
        if (message instanceof byte[] bytes) {
            line.put("message_base64", bytes);
        } else {
            line.put("json", new RawValue(new String(body(mapper), StandardCharsets.UTF_8)));
            all.putIfAbsent("content-type", "application/json");
        }
        if (!all.isEmpty()) line.put("headers", all);
        return line;
    }
}
