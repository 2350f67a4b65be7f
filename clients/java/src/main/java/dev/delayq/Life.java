package dev.delayq;

import java.time.Instant;

/** An ended life of a task, as the history of the server has it. */
public record Life(
        String type, String id, Outcome outcome, Instant submittedAt, Instant dueAt, Instant startedAt,
        Instant endedAt, Long runMs, int attempts, String group, String project, String holder, String error) {}
