package dev.delayq;

import dev.delayq.DelayqException.Problem;
import dev.delayq.Wire.Answer;
import dev.delayq.Wire.Request;
import java.io.ByteArrayOutputStream;
import java.nio.charset.StandardCharsets;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** Sends many tasks, in requests of at most 1,000 lines and 1 MiB. */
final class Bulk {
    private static final int MOST_LINES = 1000;
    private static final int MOST_BYTES = 1 << 20;

    private record LineOutcome(
            String id, Outcome outcome, Instant dueAt, String durability, State state, Problem problem) {}

    private final App app;
    private SendResult[] results;
    /** The server was not reached within the patience. */
    private DelayqException away;

    Bulk(App app) {
        this.app = app;
    }

    List<SendResult> send(List<Task> tasks) {
        results = new SendResult[tasks.size()];
        byte[][] lines = new byte[tasks.size()][];
        Map<String, List<Integer>> types = new LinkedHashMap<>();
        for (int at = 0; at < lines.length; at++) {
            try {
                Json.part(tasks.get(at).type);
                lines[at] = Json.write(Json.API, tasks.get(at).line(app.mapper, false));
                types.computeIfAbsent(tasks.get(at).type, type -> new ArrayList<>()).add(at);
            } catch (DelayqException refused) {
                results[at] = new SendResult(null, refused);
            }
        }
        types.forEach((type, all) -> {
            List<Integer> some = new ArrayList<>();
            int bytes = 0;
            for (int at : all) {
                if (some.size() == MOST_LINES || (bytes > 0 && bytes + lines[at].length >= MOST_BYTES)) {
                    sendSome(type, some, lines);
                    some = new ArrayList<>();
                    bytes = 0;
                }
                some.add(at);
                bytes += lines[at].length + 1;
            }
            sendSome(type, some, lines);
        });
        return Arrays.asList(results);
    }

    /** Sends these lines, and again those whose end is not certain, until the patience is over. */
    private void sendSome(String type, List<Integer> some, byte[][] lines) {
        if (away != null) {
            for (int at : some) results[at] = new SendResult(null, away.inDoubt(false));
            return;
        }
        long end = System.nanoTime() + app.client.patience().toNanos();
        List<Integer> open = some;
        for (int tries = 0; !open.isEmpty(); tries++) {
            ByteArrayOutputStream body = new ByteArrayOutputStream();
            for (int at : open) {
                body.writeBytes(lines[at]);
                body.write('\n');
            }
            Map<String, String> headers = Map.of("Content-Type", "application/x-ndjson");
            var request = new Request("POST", "/types/" + Json.part(type) + "/bulk", headers, body.toByteArray());
            try {
                read(open, Client.await(app.client.call(request, app.client.timeout().plus(App.LARGE), () -> end)));
            } catch (DelayqException error) {
                for (int at : open) results[at] = new SendResult(null, error);
                if (error instanceof DelayqException.Unavailable) away = error;
                return;
            }
            List<Integer> again = open.stream().filter(at -> isOpen(results[at])).toList();
            long left = (end - System.nanoTime()) / 1_000_000;
            if (left <= 0 || again.isEmpty()) return;
            long asked = again.stream().map(at -> results[at].error().retryAfter())
                    .mapToLong(wait -> wait == null ? 0 : wait.toMillis()).max().orElse(0);
            if (asked > left) return;
            Client.await(new java.util.concurrent.CompletableFuture<Void>().completeOnTimeout(
                    null, Math.max(asked, Client.backoff(tries)), java.util.concurrent.TimeUnit.MILLISECONDS));
            open = again;
        }
    }

    private static boolean isOpen(SendResult result) {
        return result.error() != null && Client.isRepeated(result.error());
    }

    private void read(List<Integer> open, Answer answer) {
        String[] said = new String(answer.body(), StandardCharsets.UTF_8).split("\n");
        Problem lost = new Problem("in-doubt", 0, "no answer", "the answer has no line for it", true, null);
        for (int index = 0; index < open.size(); index++) {
            SendResult result = new SendResult(null, DelayqException.of(lost, true, null));
            if (index < said.length && !said[index].isBlank()) {
                LineOutcome line = Json.read(said[index].getBytes(StandardCharsets.UTF_8), LineOutcome.class);
                result = line.problem != null
                        ? new SendResult(null, DelayqException.of(line.problem, line.problem.status() == 504, null))
                        : new SendResult(new Receipt(
                                line.id, line.outcome, line.dueAt, line.durability, line.state, null), null);
            }
            results[open.get(index)] = result;
        }
    }
}
