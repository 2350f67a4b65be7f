package dev.delayq;

/** Thrown by a handler: the task is dead, without another attempt. */
public class Dead extends RuntimeException {
    public Dead(String why) {
        super(why);
    }

    public Dead(String why, Throwable cause) {
        super(why, cause);
    }
}
