package dev.delayq;

/** Why a handler is told to stop. */
public enum Stop {
    /** Somebody cancelled the task. */
    CANCELLED,
    /** The lock is lost: another worker may have the task, and nothing is reported any more. */
    LOST,
    /** The app stops, and its grace is over: the task is given back. */
    SHUTDOWN
}
