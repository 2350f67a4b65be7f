package dev.delayq;

import com.fasterxml.jackson.databind.JsonNode;
import dev.delayq.Attempt.Claimed;
import java.io.IOException;
import java.net.URLDecoder;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;

/** The part of a server that a {@link TestApp} needs. */
final class Memory implements Wire {
    private static final long TEN_YEARS = Duration.ofDays(3653).toMillis();
    private static final long RETENTION = Duration.ofMinutes(10).toMillis();
    private static final List<String> OPEN = List.of("scheduled", "running", "dead");

    volatile long now = Instant.parse("2030-01-01T00:00:00Z").toEpochMilli();
    private long fence;
    private final Map<String, Stored> tasks = new LinkedHashMap<>();
    /** The ended lives of all tasks, the latest first. */
    private final List<Map<String, Object>> lives = new ArrayList<>();
    private final Map<String, Members> batches = new LinkedHashMap<>();

    private static final class Stored {
        String type;
        String id;
        String state = "scheduled";
        long at;
        long dueAt;
        long submittedAt;
        Long expiresAt;
        int attempt;
        String lastError;
        boolean isCancelRequested;
        byte[] message;
        Map<String, String> headers;
        long fence;
        byte[] reply;
        String replyType;
        Map<String, String> again;
        byte[] againMessage;
        Map<String, String> againHeaders;

        TaskInfo info() {
            boolean isKept = OPEN.contains(state);
            return new TaskInfo(id, new State(state), Instant.ofEpochMilli(at), Instant.ofEpochMilli(submittedAt),
                    Instant.ofEpochMilli(dueAt), expiresAt == null ? null : Instant.ofEpochMilli(expiresAt), attempt,
                    lastError, isCancelRequested, headers,
                    isKept ? new String(message, StandardCharsets.UTF_8) : null, null);
        }
    }

    private record Members(List<Stored> tasks, JsonNode then, String thenId) {}

    private static final class Refusal extends RuntimeException {
        final int status;
        final String kind;

        Refusal(int status, String kind, String detail) {
            super(detail, null, false, false);
            this.status = status;
            this.kind = kind;
        }
    }

    synchronized List<TaskInfo> tasks(String type) {
        return tasks.values().stream().filter(task -> task.type.equals(type)).map(Stored::info).toList();
    }

    /** The next task that is due until then; the time moves to when it is due. */
    synchronized Claimed claim(List<String> types, long end) {
        endBatches();
        Stored next = tasks.values().stream()
                .filter(task -> task.state.equals("scheduled") && types.contains(task.type) && task.dueAt <= end)
                .min(Comparator.comparingLong(task -> task.dueAt)).orElse(null);
        if (next == null) return null;
        now = Math.max(now, next.dueAt);
        if (next.expiresAt != null && next.expiresAt <= now) {
            finish(next, "expired");
            return claim(types, end);
        }
        next.state = "running";
        next.attempt++;
        next.fence = ++fence;
        return new Claimed(next.type, next.id, next.fence + "-" + next.attempt, next.fence, next.attempt,
                Instant.ofEpochMilli(next.dueAt), Instant.ofEpochMilli(next.submittedAt), next.headers, next.lastError,
                null, next.message);
    }

    @Override
    public synchronized CompletableFuture<Answer> send(Request request, Duration timeout) {
        try {
            String[] place = request.path().split("\\?", 2);
            List<String> parts = Arrays.stream(place[0].substring(1).split("/")).map(Memory::decoded).toList();
            Map<String, String> query = new LinkedHashMap<>();
            if (place.length > 1) {
                for (String pair : place[1].split("&")) {
                    String[] both = pair.split("=", 2);
                    query.put(both[0], decoded(both[1]));
                }
            }
            return CompletableFuture.completedFuture(answer(request, parts, query));
        } catch (Refusal refusal) {
            var problem = Map.of("type", "urn:delayq:problem:" + refusal.kind, "title", refusal.kind,
                    "status", refusal.status, "detail", refusal.getMessage(), "is_repeatable", false);
            return CompletableFuture.completedFuture(said(refusal.status, problem));
        }
    }

    private static String decoded(String text) {
        return URLDecoder.decode(text, StandardCharsets.UTF_8);
    }

    private static Answer said(int status, Object form) {
        return new Answer(status, name -> "content-type".equals(name) ? "application/json" : null, Json.write(Json.API, form));
    }

    private Answer answer(Request request, List<String> parts, Map<String, String> query) {
        String method = request.method();
        if (parts.get(0).equals("batches")) return batch(method, parts.get(1), request.body());
        if (!parts.get(0).equals("types")) throw new Refusal(501, "unsupported", "a TestApp does not have that");
        String type = parts.get(1);
        if (parts.get(2).equals("bulk")) return bulk(type, request.body());
        if (parts.size() == 3) return said(201, create(type, null, query, message(request), headers(request)));
        String id = parts.get(3);
        if (parts.size() == 4 && method.equals("PUT")) {
            return said(201, create(type, id, query, message(request), headers(request)));
        }
        Stored task = tasks.get(type + " " + id);
        if (task == null || isForgotten(task)) throw new Refusal(404, "not-found", "there is no task " + id + " of type " + type);
        if (parts.size() == 4) return method.equals("DELETE") ? cancel(task) : said(200, view(task));
        return act(task, parts.get(4), query, request);
    }

    private static byte[] message(Request request) {
        return request.body();
    }

    private static Map<String, String> headers(Request request) {
        Map<String, String> headers = new LinkedHashMap<>();
        request.headers().forEach((name, value) -> {
            if (name.equals("Content-Type")) headers.put("content-type", value);
            if (name.startsWith("Delayq-Header-")) headers.put(name.substring(14), value);
        });
        return headers;
    }

    private Map<String, Object> view(Stored task) {
        TaskInfo info = task.info();
        Map<String, Object> view = new LinkedHashMap<>();
        view.put("id", info.id());
        view.put("state", task.state);
        view.put("at", task.at);
        view.put("submitted_at", task.submittedAt);
        view.put("due_at", task.dueAt);
        view.put("expires_at", task.expiresAt);
        view.put("attempt", task.attempt);
        view.put("last_error", task.lastError);
        view.put("cancel_requested", task.isCancelRequested);
        view.put("headers", task.headers);
        view.put("message", info.message());
        return view;
    }

    private boolean isForgotten(Stored task) {
        return !OPEN.contains(task.state) && task.at + RETENTION < now;
    }

    private static long span(Map<String, String> query, String name) {
        String text = query.get(name);
        if (text == null) return 0;
        if (!text.matches("\\d{1,15}")) throw new Refusal(400, "bad-request", name + ": " + text + " is no span");
        long span = Long.parseLong(text);
        if (span > TEN_YEARS) throw new Refusal(400, "bad-request", name + ": a task waits at most 10 years");
        return span;
    }

    private static void refuse(boolean isRefused, String detail) {
        if (isRefused) throw new Refusal(400, "bad-request", detail);
    }

    private static void check(String type, String id, Map<String, String> query) {
        refuse(!type.matches("[A-Za-z0-9._:-]{1,100}"), "invalid task type \"" + type + "\"");
        refuse(id != null && !id.matches("[!-~]{1,128}"), "invalid task id \"" + id + "\"");
        refuse(query.containsKey("delay") && query.containsKey("at"), "delay and at exclude each other");
        refuse(query.containsKey("expires_after") && query.containsKey("expires_at"),
                "expires_after and expires_at exclude each other");
        for (String name : List.of("debounce", "throttle")) {
            if (!query.containsKey(name)) continue;
            for (String other : List.of("delay", "at", "on_conflict")) {
                refuse(query.containsKey(other), name + " and " + other + " exclude each other");
            }
            refuse(id == null, name + ": it goes by the id of the task, so give the task an id");
        }
        refuse(query.containsKey("debounce") && query.containsKey("throttle"), "debounce and throttle exclude each other");
        refuse(span(query, "debounce") > span(query, "max_wait"), "max_wait is shorter than the debounce");
    }

    private Map<String, Object> create(
            String type, String id, Map<String, String> query, byte[] message, Map<String, String> headers) {
        check(type, id, query);
        long throttle = span(query, "throttle");
        long dueAt = query.containsKey("at") ? Math.max(now, Long.parseLong(query.get("at"))) : now + span(query, "delay");
        if (throttle > 0) {
            dueAt = (now / throttle + 1) * throttle;
            id += "@" + Instant.ofEpochMilli(dueAt);
        }
        for (String label : List.of("group", "project")) {
            if (query.containsKey(label)) headers.put(label, query.get(label));
        }
        Stored old = tasks.get(type + " " + id);
        if (old != null && isForgotten(old)) old = null;
        boolean isDebounced = query.containsKey("debounce");
        boolean isOpen = old != null && OPEN.contains(old.state);
        boolean isSame = old != null && Arrays.equals(old.message, message) && old.headers.equals(headers);
        if (old != null && old.state.equals("running") && query.containsKey("again_if_running")) {
            old.again = query;
            old.againMessage = message;
            old.againHeaders = headers;
            return accepted(id, "runs_again", dueAt);
        }
        String conflict = query.getOrDefault("on_conflict", "reject");
        boolean isTaken = isDebounced || conflict.equals("replace");
        boolean isKept = throttle > 0 || isSame || (isOpen && conflict.equals("keep"));
        boolean isEndedAgain = !isOpen && query.containsKey("again_if_running");
        if (old != null && isKept && !isEndedAgain && !(isTaken && isOpen && !old.state.equals("running"))) {
            Map<String, Object> exists = accepted(id, "already_exists", null);
            exists.put("state", old.state);
            return exists;
        }
        if (isOpen && (!isTaken || old.state.equals("running"))) {
            throw new Refusal(409, "conflict", "another task " + id + " of " + type + " is " + old.state);
        }
        Stored task = new Stored();
        task.type = type;
        task.id = id;
        task.message = message;
        task.headers = headers;
        task.submittedAt = now;
        if (isDebounced) {
            boolean goesOn = isOpen && old.state.equals("scheduled") && old.attempt == 0;
            if (goesOn) task.submittedAt = old.submittedAt;
            dueAt = Math.min(now + span(query, "debounce"), task.submittedAt + span(query, "max_wait"));
        }
        task.at = task.dueAt = dueAt;
        if (query.containsKey("expires_after")) task.expiresAt = dueAt + span(query, "expires_after");
        if (query.containsKey("expires_at")) task.expiresAt = Long.parseLong(query.get("expires_at"));
        tasks.remove(type + " " + id);
        tasks.put(type + " " + id, task);
        return accepted(id, isOpen ? "replaced" : "accepted", dueAt);
    }

    private static Map<String, Object> accepted(String id, String outcome, Long dueAt) {
        Map<String, Object> form = new LinkedHashMap<>(Map.of("id", id, "outcome", outcome, "durability", "memory"));
        if (dueAt != null) form.put("due_at", dueAt);
        return form;
    }

    private Map<String, Object> create(String type, JsonNode line, String usualId) {
        Map<String, String> query = new LinkedHashMap<>();
        line.properties().forEach(option -> query.put(option.getKey(), option.getValue().asText()));
        Map<String, String> headers = new LinkedHashMap<>();
        line.path("headers").properties().forEach(header -> headers.put(header.getKey(), header.getValue().asText()));
        try {
            byte[] message = line.has("message_base64")
                    ? line.get("message_base64").binaryValue() : Json.write(Json.API, line.get("json"));
            return create(type, line.path("id").asText(usualId), query, message, headers);
        } catch (IOException error) {
            throw new Refusal(400, "bad-request", "message_base64: " + error.getMessage());
        }
    }

    private Answer bulk(String type, byte[] body) {
        StringBuilder said = new StringBuilder();
        for (String line : new String(body, StandardCharsets.UTF_8).split("\n")) {
            Object outcome;
            try {
                outcome = create(type, Json.read(line.getBytes(StandardCharsets.UTF_8), JsonNode.class), null);
            } catch (Refusal refusal) {
                outcome = Map.of("problem", Map.of("type", "urn:delayq:problem:" + refusal.kind, "status", refusal.status,
                        "title", refusal.kind, "detail", refusal.getMessage(), "is_repeatable", false));
            }
            said.append(new String(Json.write(Json.API, outcome), StandardCharsets.UTF_8)).append('\n');
        }
        return new Answer(200, name -> null, said.toString().getBytes(StandardCharsets.UTF_8));
    }

    private Answer cancel(Stored task) {
        task.again = null;
        if (task.state.equals("running")) {
            task.isCancelRequested = true;
            return said(202, Map.of("outcome", "running"));
        }
        if (task.state.equals("scheduled")) finish(task, "cancelled");
        if (task.state.equals("cancelled")) return said(200, Map.of("outcome", "cancelled"));
        throw new Refusal(409, "finished", task.id + " of " + task.type + " has ended: it is " + task.state);
    }

    private void finish(Stored task, String state) {
        task.state = state;
        task.at = now;
        Map<String, Object> life = new LinkedHashMap<>(Map.of("type", task.type, "id", task.id, "outcome", state,
                "submitted_at", task.submittedAt, "due_at", task.dueAt, "ended_at", now, "attempts", task.attempt));
        life.put("error", task.lastError);
        lives.add(0, life);
        Map<String, String> again = task.again;
        task.again = null;
        task.isCancelRequested = false;
        if (again == null) return;
        tasks.remove(task.type + " " + task.id);
        create(task.type, task.id, again, task.againMessage, task.againHeaders);
    }

    private Answer act(Stored task, String what, Map<String, String> query, Request request) {
        byte[] body = request.body();
        switch (what) {
            case "reschedule", "run-now", "message" -> {
                if (!task.state.equals("scheduled")) {
                    throw new Refusal(409, "not-scheduled", task.id + " of " + task.type + " is " + task.state);
                }
                if (what.equals("message")) task.message = body;
                else task.at = task.dueAt = query.containsKey("at") ? Math.max(now, Long.parseLong(query.get("at"))) : now + span(query, "delay");
                return said(200, Map.of("due_at", task.dueAt));
            }
            case "history" -> {
                return said(200, Map.of("lives", lives.stream()
                        .filter(life -> life.get("type").equals(task.type) && life.get("id").equals(task.id)).toList()));
            }
            case "reply" -> {
                return reply(task);
            }
            default -> {
                boolean isHeld = task.state.equals("running") && query.get("lock").equals(task.fence + "-" + task.attempt);
                if (!isHeld) throw new Refusal(409, "lock-lost", "this lock of " + task.id + " is lost");
                return settle(task, what, query, request);
            }
        }
    }

    private Answer reply(Stored task) {
        switch (task.state) {
            case "done":
                if (task.reply == null) return new Answer(204, name -> null, new byte[0]);
                return new Answer(200, name -> name.equals("content-type") ? task.replyType : null, task.reply);
            case "dead":
                throw new Refusal(424, "dead", task.id + " of " + task.type + " is dead: " + task.lastError);
            case "cancelled", "expired":
                throw new Refusal(410, task.state, task.id + " of " + task.type + " is " + task.state);
            default:
                return said(202, Map.of("id", task.id, "outcome", "pending"));
        }
    }

    private Answer settle(Stored task, String what, Map<String, String> query, Request request) {
        byte[] body = request.body();
        if (what.equals("extend")) {
            String outcome = task.isCancelRequested ? "cancel_requested" : "extended";
            return said(200, Map.of("outcome", outcome, "lock_until", now + span(query, "lock_for")));
        }
        if (what.startsWith("done")) {
            if (body.length > 0) {
                task.reply = body;
                task.replyType = request.headers().get("Content-Type");
            }
            if (what.equals("done-then")) {
                JsonNode form = Json.read(body, JsonNode.class);
                task.reply = form.has("reply") ? Json.write(Json.API, form.get("reply")) : null;
                int index = 0;
                for (JsonNode line : form.get("then")) {
                    create(line.path("type").asText(), line, task.type + "/" + task.id + "/" + task.fence + "/" + index++);
                }
            }
            finish(task, "done");
        } else if (task.isCancelRequested) {
            finish(task, "cancelled");
        } else if (what.equals("release")) {
            again(task, span(query, "after"));
            task.attempt--;
        } else {
            fail(task, query, new String(body, StandardCharsets.UTF_8));
        }
        return said(200, Map.of("outcome", "settled"));
    }

    private void fail(Stored task, Map<String, String> query, String error) {
        task.lastError = error;
        int most = Integer.parseInt(query.getOrDefault("max_attempts", "5"));
        if (query.containsKey("dead") || task.attempt >= most) {
            finish(task, "dead");
            return;
        }
        long usual = Math.min(600_000, 1000L << Math.min(task.attempt - 1, 20));
        again(task, query.containsKey("retry_after") ? span(query, "retry_after") : usual);
    }

    private void again(Stored task, long wait) {
        task.state = "scheduled";
        task.at = task.dueAt = now + wait;
    }

    private Answer batch(String method, String name, byte[] body) {
        Members known = batches.get(name);
        if (method.equals("PUT")) {
            JsonNode form = Json.read(body, JsonNode.class);
            if (known != null && !isOver(known)) throw new Refusal(409, "conflict", "another batch " + name + " waits");
            List<Stored> members = new ArrayList<>();
            for (JsonNode line : form.get("tasks")) {
                Object id = create(line.path("type").asText(), line, name + "/" + members.size()).get("id");
                members.add(tasks.get(line.path("type").asText() + " " + id));
            }
            JsonNode then = form.get("then");
            batches.put(name, new Members(members, then, name + "+then"));
            return said(201, Map.of("name", name, "ids", members.stream().map(task -> task.id).toList(),
                    "then_type", then.path("type").asText(), "then_id", name + "+then"));
        }
        if (known == null) throw new Refusal(404, "not-found", "no batch " + name + " waits, and none ended lately");
        if (method.equals("GET")) {
            return said(200, Map.of("state", isOver(known) ? "over" : "waiting", "counts", counts(name, known), "is_exact", true));
        }
        batches.remove(name);
        long running = known.tasks.stream().filter(task -> task.state.equals("running")).count();
        List<Stored> open = known.tasks.stream().filter(task -> OPEN.contains(task.state)).toList();
        open.stream().filter(task -> !task.state.equals("dead")).forEach(this::cancel);
        return said(200, Map.of("changed", open.size() - running, "running", running));
    }

    private boolean isOver(Members batch) {
        return tasks.containsKey(batch.then.path("type").asText() + " " + batch.thenId);
    }

    private Map<String, Object> counts(String name, Members batch) {
        Map<String, Object> counts = new LinkedHashMap<>(Map.of("name", name, "total", batch.tasks.size(), "forgotten", 0));
        for (String state : List.of("done", "dead", "cancelled", "expired")) {
            counts.put(state, batch.tasks.stream().filter(task -> task.state.equals(state)).count());
        }
        return counts;
    }

    private void endBatches() {
        batches.forEach((name, batch) -> {
            boolean isWaiting = batch.tasks.stream().anyMatch(task -> List.of("scheduled", "running").contains(task.state));
            if (isWaiting || isOver(batch)) return;
            var then = batch.then.<com.fasterxml.jackson.databind.node.ObjectNode>deepCopy();
            then.withObject("/headers").put("delayq-batch", new String(Json.write(Json.API, counts(name, batch)), StandardCharsets.UTF_8));
            if (!then.has("delay")) then.put("delay", 1000);
            create(then.path("type").asText(), then, batch.thenId);
        });
    }
}
