package dev.delayq;

import java.time.Instant;
import java.util.Map;

/** The attempt that a handler works on. Its text names the task, for a log. */
public interface TaskContext {
    String type();

    String id();

    /** The number of the attempt, from 1. */
    int attempt();

    /** Grows with each lock of the task: pass it to what you write to, which can refuse a smaller one. */
    long fence();

    /** When this attempt was due. */
    Instant dueAt();

    Instant submittedAt();

    /** The headers of the task, with their names in small letters. */
    Map<String, String> headers();

    /** The group of the task, or null. */
    default String group() {
        return headers().get("group");
    }

    /** The error of the attempt before, or null. */
    String lastError();

    /** True once somebody has cancelled the task. The handler's thread is interrupted then, too. */
    boolean isCancelled();

    /** True once the lock is lost. The handler's thread is interrupted then, too. */
    boolean isLost();

    /** Calls this, on another thread, when the handler is told to stop. */
    void onStop(java.util.function.Consumer<Stop> listener);

    /** Sends this task when the handler has returned, in the same step that makes its own task done. */
    void then(Task task);
}
