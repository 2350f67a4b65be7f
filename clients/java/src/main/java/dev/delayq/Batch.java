package dev.delayq;

import java.util.List;

/**
 * How far a batch is.
 *
 * @param counts null once it is over: the task that follows has them in its header {@code delayq-batch}
 * @param isExact false if not every task was looked at
 */
public record Batch(State state, Counts counts, boolean isExact) {
    public record Counts(String name, int total, int done, int dead, int cancelled, int expired, int forgotten) {}

    /** An accepted batch, with the ids of its tasks in order. */
    public record Sent(String name, List<String> ids, String thenType, String thenId) {}

    /** A cancelled batch: how many tasks were cancelled, and how many run and are asked to stop. */
    public record Cancelled(int changed, int running) {}
}
