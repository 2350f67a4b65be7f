package dev.delayq;

/** What became of one task of {@link App#sendAll}: one of the two is null. */
public record SendResult(Receipt receipt, DelayqException error) {
    public boolean isAccepted() {
        return receipt != null;
    }
}
