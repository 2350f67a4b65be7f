package dev.delayq;

import com.fasterxml.jackson.annotation.JsonCreator;
import com.fasterxml.jackson.annotation.JsonValue;

/** What became of a request. One that this client does not know is passed on with its text. */
public record Outcome(String text) {
    public static final Outcome ACCEPTED = new Outcome("accepted");
    public static final Outcome REPLACED = new Outcome("replaced");
    public static final Outcome ALREADY_EXISTS = new Outcome("already_exists");
    public static final Outcome RUNS_AGAIN = new Outcome("runs_again");
    /** The task never starts. */
    public static final Outcome CANCELLED = new Outcome("cancelled");
    /** The task runs, and is asked to stop. */
    public static final Outcome RUNNING = new Outcome("running");
    /** The lives of a history end so, or as {@link #CANCELLED}. */
    public static final Outcome DONE = new Outcome("done");
    public static final Outcome DEAD = new Outcome("dead");
    public static final Outcome EXPIRED = new Outcome("expired");
    public static final Outcome DISCARDED = new Outcome("discarded");

    @JsonCreator(mode = JsonCreator.Mode.DELEGATING)
    public Outcome {}

    @Override
    @JsonValue
    public String toString() {
        return text;
    }
}
