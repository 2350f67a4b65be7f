package dev.delayq;

import com.fasterxml.jackson.annotation.JsonCreator;
import com.fasterxml.jackson.annotation.JsonValue;

/** The state of a task or a batch. One that this client does not know is passed on with its text. */
public record State(String text) {
    public static final State SCHEDULED = new State("scheduled");
    public static final State RUNNING = new State("running");
    public static final State DEAD = new State("dead");
    public static final State DONE = new State("done");
    public static final State CANCELLED = new State("cancelled");
    public static final State EXPIRED = new State("expired");
    /** A task whose reply is waited for has not ended. */
    public static final State PENDING = new State("pending");
    /** A batch whose tasks have not all ended. */
    public static final State WAITING = new State("waiting");
    /** A batch whose last task was created. */
    public static final State OVER = new State("over");

    @JsonCreator(mode = JsonCreator.Mode.DELEGATING)
    public State {}

    @Override
    @JsonValue
    public String toString() {
        return text;
    }
}
