package dev.delayq;

/**
 * The reply of a worker, or that there is none.
 *
 * @param state {@link State#DONE}, or {@link State#PENDING} if the task has not ended within the wait: ask again
 * @param contentType null without a reply
 * @param body null without a reply
 */
public record Reply(State state, String contentType, byte[] body) {
    /** True if the task has not ended within the wait. */
    public boolean isPending() {
        return state.equals(State.PENDING);
    }

    /** True if the task is done and its worker has replied. */
    public boolean isPresent() {
        return body != null;
    }

    /** The reply as an object; null without a reply. */
    public <T> T json(Class<T> type) {
        return body == null ? null : Json.read(Json.MESSAGES, body, Json.MESSAGES.constructType(type));
    }
}
