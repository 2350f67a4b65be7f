package dev.delayq;

import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.File;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.junit.jupiter.api.Test;

/** What the client uses is in the description of the server. */
class OpenApiTest {
    private static final String TYPE = "/v1/{namespace}/types/{task_type}";
    private static final String TASK = TYPE + "/tasks/{id}";
    private final JsonNode api;

    OpenApiTest() throws Exception {
        api = new ObjectMapper().readTree(new File("../../server/delayq-server/openapi.json"));
    }

    private void route(String method, String path, String... parameters) {
        JsonNode route = api.path("paths").path(path).path(method);
        assertTrue(route.isObject(), method + " " + path);
        List<String> names = new ArrayList<>();
        route.path("parameters").forEach(one -> names.add(one.path("name").asText()));
        assertTrue(names.containsAll(List.of(parameters)), method + " " + path + " has " + names);
    }

    private void fields(String schema, String... fields) {
        JsonNode found = api.path("components").path("schemas").path(schema);
        for (String field : fields) {
            boolean isThere = found.findValues("properties").stream().anyMatch(all -> all.has(field));
            assertTrue(isThere, schema + "." + field);
        }
    }

    private static String[] components(Class<?> type, String... without) {
        return Arrays.stream(type.getRecordComponents())
                .map(one -> one.getName().replaceAll("([A-Z])", "_$1").toLowerCase())
                .filter(name -> !List.of(without).contains(name)).toArray(String[]::new);
    }

    private static final String[] OPTIONS = {"delay", "at", "on_conflict", "debounce", "max_wait", "throttle",
            "expires_after", "expires_at", "group", "project", "again_if_running"};

    @Test
    void theRoutesAreThere() {
        route("put", TASK, OPTIONS);
        route("post", TYPE + "/tasks", OPTIONS);
        route("post", TYPE + "/bulk");
        route("get", TASK);
        route("delete", TASK);
        route("post", TASK + "/reschedule", "delay", "at");
        route("post", TASK + "/run-now");
        route("put", TASK + "/message");
        route("get", TASK + "/reply", "wait");
        route("get", TASK + "/history");
        route("post", "/v1/{namespace}/types/{types}/claim", "limit", "wait", "lock_for");
        route("post", TASK + "/done", "lock");
        route("post", TASK + "/done-then", "lock");
        route("post", TASK + "/fail", "lock", "retry_after", "max_attempts", "dead");
        route("post", TASK + "/release", "lock", "after");
        route("post", TASK + "/extend", "lock", "lock_for");
        for (String method : List.of("put", "get", "delete")) {
            route(method, "/v1/{namespace}/batches/{id}");
            route(method, "/v1/{namespace}/recurring/{id}");
        }
        route("post", "/v1/{namespace}/recurring/{id}/pause");
        route("post", "/v1/{namespace}/recurring/{id}/resume");
        route("get", "/v1/{namespace}/recurring", "limit", "cursor");
    }

    @Test
    void theFieldsAreThere() {
        fields("Line", OPTIONS);
        fields("Line", "id", "type", "json", "message_base64", "headers");
        fields("Accepted", components(Receipt.class, "reply"));
        fields("LineOutcome", "problem");
        fields("Problem", components(DelayqException.Problem.class));
        fields("TaskView", components(TaskInfo.class, "message", "message_base64"));
        fields("ClaimedView", components(Attempt.Claimed.class, "message", "message_base64"));
        fields("MessageView", "message", "message_base64");
        fields("Extended", "outcome");
        fields("Changed", "due_at");
        fields("DoneForm", "then", "reply");
        fields("BatchForm", "tasks", "then");
        fields("BatchAccepted", components(Batch.Sent.class));
        fields("RecurringForm", "type", "every", "zone", "json", "message_base64", "headers", "group");
        fields("RecurringView", components(Recurring.class, "message"));
        fields("RecurringList", "recurring", "next");
    }

    @Test
    void theValuesAreThere() {
        JsonNode create = api.path("paths").path(TASK).path("put");
        for (OnConflict one : OnConflict.values()) {
            assertTrue(create.toString().contains("\"" + one.name().toLowerCase() + "\""), one.name());
        }
        String outcomes = api.path("components").path("schemas").path("Accepted").path("properties").path("outcome").toString();
        for (Outcome one : List.of(Outcome.ACCEPTED, Outcome.REPLACED, Outcome.ALREADY_EXISTS, Outcome.RUNS_AGAIN)) {
            assertTrue(outcomes.contains("`" + one + "`"), outcomes);
        }
        String states = api.path("components").path("schemas").path("TaskView").findValue("state").toString();
        for (State one : List.of(State.SCHEDULED, State.RUNNING, State.DEAD, State.DONE, State.CANCELLED, State.EXPIRED)) {
            assertTrue(states.contains("`" + one + "`"), states);
        }
    }
}
