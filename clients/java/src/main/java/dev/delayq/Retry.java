package dev.delayq;

import java.time.Duration;
import java.util.concurrent.ThreadLocalRandom;

/**
 * How failed attempts are repeated.
 *
 * @param max attempts after which the task is dead, the first included
 * @param firstWait the wait before the second attempt; each is up to 10 % shorter or longer
 * @param maxWait the longest wait
 * @param isFixed true if all waits are equal, instead of doubling
 */
public record Retry(int max, Duration firstWait, Duration maxWait, boolean isFixed) {
    public Retry {
        if (max < 1 || firstWait.isNegative() || maxWait.compareTo(firstWait) < 0) {
            throw new IllegalArgumentException("retry: max is at least 1, and maxWait not below firstWait");
        }
    }

    /** Waits of 1 s, 2 s, 4 s and so on, up to 10 minutes. */
    public static Retry max(int attempts) {
        return new Retry(attempts, Duration.ofSeconds(1), Duration.ofMinutes(10), false);
    }

    public static Retry exponential(int attempts, Duration wait, Duration maxWait) {
        return new Retry(attempts, wait, maxWait, false);
    }

    public static Retry fixed(int attempts, Duration wait) {
        return new Retry(attempts, wait, wait, true);
    }

    long waitMillis(int attempt, boolean isExact) {
        double wait = firstWait.toMillis() * (isFixed ? 1 : Math.pow(2, Math.max(0, attempt - 1)));
        double jitter = isExact ? 1 : 0.9 + 0.2 * ThreadLocalRandom.current().nextDouble();
        return Math.round(Math.min(wait, maxWait.toMillis()) * jitter);
    }
}
