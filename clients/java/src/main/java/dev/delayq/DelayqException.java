package dev.delayq;

import java.time.Duration;

/** A request was refused, or its end is not known. The subclasses are those that a program tells apart. */
public class DelayqException extends RuntimeException {
    private final transient Problem problem;
    private final boolean inDoubt;

    /** The facts of a problem, as RFC 9457 has them. */
    record Problem(String type, int status, String title, String detail, boolean isRepeatable, Integer retryAfter) {
        static Problem of(String kind, int status, String detail) {
            return new Problem(kind, status, kind, detail, false, null);
        }

        String kind() {
            return type == null ? "http-" + status : type.substring(type.lastIndexOf(':') + 1);
        }
    }

    DelayqException(Problem problem, boolean inDoubt, Throwable cause) {
        super(problem.kind() + ": " + problem.detail, cause);
        this.problem = problem;
        this.inDoubt = inDoubt;
    }

    /** The kind of problem, such as {@code conflict}, {@code queue-full} or {@code lock-lost}. */
    public String kind() {
        return problem.kind();
    }

    /** The HTTP status, or 0 if there was no answer. */
    public int status() {
        return problem.status;
    }

    /** The kind in a few words. */
    public String title() {
        return problem.title;
    }

    /** What is wrong, and what to change. */
    public String detail() {
        return problem.detail;
    }

    /** True if the same call may be made again later. */
    public boolean isRepeatable() {
        return problem.isRepeatable;
    }

    /** The time to wait before the call is made again; null if the server named none. */
    public Duration retryAfter() {
        return problem.retryAfter == null ? null : Duration.ofSeconds(problem.retryAfter);
    }

    /** True if the request may have been accepted all the same, because an answer was lost. */
    public boolean isInDoubt() {
        return inDoubt;
    }

    DelayqException inDoubt(boolean inDoubt) {
        return inDoubt == this.inDoubt ? this : of(problem, inDoubt, getCause());
    }

    static DelayqException of(Problem problem, boolean inDoubt, Throwable cause) {
        if (problem.kind().equals("lock-lost")) return new LockLost(problem, inDoubt, cause);
        // A 404 of an address, or of a server without a history, says nothing of a task.
        if (problem.kind().matches("no-route|no-history")) return new DelayqException(problem, inDoubt, cause);
        return switch (problem.status) {
            case 400, 422 -> new InvalidInput(problem, inDoubt, cause);
            case 401, 403 -> new Unauthorized(problem, inDoubt, cause);
            case 404 -> new NotFound(problem, inDoubt, cause);
            case 409 -> new Conflict(problem, inDoubt, cause);
            case 413, 429, 507 -> new LimitExceeded(problem, inDoubt, cause);
            case 0, 502, 503, 504 -> new Unavailable(problem, inDoubt, cause);
            default -> new DelayqException(problem, inDoubt, cause);
        };
    }

    static InvalidInput invalid(String detail, Throwable cause) {
        return new InvalidInput(Problem.of("invalid-input", 0, detail), false, cause);
    }

    /** The present state does not allow it, such as another task with the same id. */
    public static final class Conflict extends DelayqException {
        Conflict(Problem problem, boolean inDoubt, Throwable cause) {
            super(problem, inDoubt, cause);
        }
    }

    /** There is no such task, batch, recurring task or type. */
    public static final class NotFound extends DelayqException {
        NotFound(Problem problem, boolean inDoubt, Throwable cause) {
            super(problem, inDoubt, cause);
        }
    }

    /** The token is not valid, or may not do that. */
    public static final class Unauthorized extends DelayqException {
        Unauthorized(Problem problem, boolean inDoubt, Throwable cause) {
            super(problem, inDoubt, cause);
        }
    }

    /** The request is not understood: {@link #detail()} says what to change. */
    public static final class InvalidInput extends DelayqException {
        InvalidInput(Problem problem, boolean inDoubt, Throwable cause) {
            super(problem, inDoubt, cause);
        }
    }

    /** Something is too large, too often or too much: a message, a rate, a queue, a store. */
    public static final class LimitExceeded extends DelayqException {
        LimitExceeded(Problem problem, boolean inDoubt, Throwable cause) {
            super(problem, inDoubt, cause);
        }
    }

    /** The server or its store was not reached in time: see {@link #isInDoubt()}. */
    public static final class Unavailable extends DelayqException {
        Unavailable(Problem problem, boolean inDoubt, Throwable cause) {
            super(problem, inDoubt, cause);
        }
    }

    /** A web hook is not signed with one of the secrets, or is too old. */
    public static final class InvalidSignature extends DelayqException {
        InvalidSignature(Problem problem) {
            super(problem, false, null);
        }
    }

    /** The lock of an attempt is lost: another worker may have the task. */
    public static final class LockLost extends DelayqException {
        LockLost(Problem problem, boolean inDoubt, Throwable cause) {
            super(problem, inDoubt, cause);
        }
    }
}
