package dev.delayq;

import java.time.Duration;

/**
 * How an app works on a type.
 *
 * @param concurrency handlers at a time, at least 1
 * @param lock how long a task is locked, 1 s to 24 h; it is extended while the handler runs
 * @param retry how failed attempts are repeated; null leaves it to the policy of the type on the server
 */
public record TaskOptions(int concurrency, Duration lock, Retry retry) {
    public TaskOptions {
        if (concurrency < 1) throw new IllegalArgumentException("concurrency: at least 1");
        if (lock.toMillis() < 1000 || lock.toHours() > 24) throw new IllegalArgumentException("lock: 1 s to 24 h");
    }

    /** One at a time, a lock of a minute, and the retries of the type. */
    public static TaskOptions defaults() {
        return new TaskOptions(1, Duration.ofMinutes(1), null);
    }

    public TaskOptions concurrency(int concurrency) {
        return new TaskOptions(concurrency, lock, retry);
    }

    public TaskOptions lock(Duration lock) {
        return new TaskOptions(concurrency, lock, retry);
    }

    public TaskOptions retry(Retry retry) {
        return new TaskOptions(concurrency, lock, retry);
    }
}
