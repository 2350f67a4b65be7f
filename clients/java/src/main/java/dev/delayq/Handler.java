package dev.delayq;

/** Works on tasks. What it throws fails the attempt; see {@link Dead}, {@link Later} and {@link RetryAfter}. */
@FunctionalInterface
public interface Handler<M> {
    void handle(M message, TaskContext cx) throws Exception;

    /** A handler whose result is the reply of the task: JSON, or the bytes of a {@code byte[]}; null for none. */
    @FunctionalInterface
    interface Replying<M> {
        Object handle(M message, TaskContext cx) throws Exception;
    }

    /** Runs around every attempt; {@code next} runs the rest and returns the reply. */
    @FunctionalInterface
    interface Around {
        Object run(TaskContext cx, java.util.concurrent.Callable<Object> next) throws Exception;
    }
}
