package dev.delayq;

import java.time.Duration;

/** Thrown by a handler: the attempt failed, and the next one begins after this wait. */
public class RetryAfter extends RuntimeException {
    final Duration after;

    public RetryAfter(Duration after, String error) {
        super(error);
        this.after = after;
    }

    public RetryAfter(Duration after, Throwable error) {
        super(error.toString(), error);
        this.after = after;
    }
}
