package dev.delayq;

import java.time.Instant;
import java.util.Map;

/**
 * A recurring task.
 *
 * @param every five fields of cron, or an interval such as {@code 15m}
 * @param zone the time zone of the fields; null for UTC
 * @param nextAt when the next occurrence is due; null while it is paused
 */
public record Recurring(
        String id, String type, String every, String zone, boolean paused, Instant nextAt, Instant since,
        Map<String, String> headers, String message) {}
