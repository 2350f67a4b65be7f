package dev.delayq;

import java.time.Duration;

/** Thrown by a handler: the task is given back and due again later; this uses up no attempt. */
public class Later extends RuntimeException {
    final Duration after;

    public Later(Duration after) {
        super("later, in " + after);
        this.after = after;
    }
}
