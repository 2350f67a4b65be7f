package dev.delayq;

import java.nio.charset.StandardCharsets;
import java.time.Instant;
import java.util.Map;

/**
 * The known facts of a task.
 *
 * @param at by state: the time when it is due, when its lock expires, when it died or when it ended
 * @param message the message as text; null if it is not UTF-8, or no longer known
 * @param messageBase64 the message if it is not UTF-8, else null
 */
public record TaskInfo(
        String id, State state, Instant at, Instant submittedAt, Instant dueAt, Instant expiresAt, int attempt,
        String lastError, boolean cancelRequested, Map<String, String> headers, String message, byte[] messageBase64) {
    /** The message; null if it is no longer known. */
    public byte[] bytes() {
        return message == null ? messageBase64 : message.getBytes(StandardCharsets.UTF_8);
    }

    /** The message as an object. */
    public <T> T json(Class<T> type) {
        return Json.read(Json.MESSAGES, bytes(), Json.MESSAGES.constructType(type));
    }
}
