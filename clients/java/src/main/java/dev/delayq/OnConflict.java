package dev.delayq;

/** What a send does if another task has its id. */
public enum OnConflict {
    /** It is refused with {@link DelayqException.Conflict}. */
    REJECT,
    /** The other task stays. */
    KEEP,
    /** It takes the place of the other task, unless that runs. */
    REPLACE
}
