package dev.delayq;

import java.time.Instant;

/**
 * The acceptance of a task.
 *
 * @param dueAt null if the task existed already
 * @param durability what the acceptance survives: {@code memory}, {@code process}, {@code disk} or {@code replicated}
 * @param state the state of the task that existed already, else null
 * @param reply what {@link App#sendAndWait} waited for, else null
 */
public record Receipt(String id, Outcome outcome, Instant dueAt, String durability, State state, Reply reply) {
    Receipt with(Reply reply) {
        return new Receipt(id, outcome, dueAt, durability, state, reply);
    }
}
