package dev.delayq;

import com.fasterxml.jackson.databind.JavaType;
import dev.delayq.DelayqException.Problem;
import dev.delayq.Wire.Answer;
import dev.delayq.Wire.Request;
import java.net.ConnectException;
import java.net.http.HttpConnectTimeoutException;
import java.time.Duration;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import java.util.function.LongSupplier;
import javax.net.ssl.SSLException;

/** Repeats requests until their end is certain. */
record Client(Wire wire, Duration timeout, Duration patience) {
    /** The answer to a request that is repeated while its end is not certain, until the patience is over. */
    CompletableFuture<Answer> call(Request request, Duration timeout) {
        long end = System.nanoTime() + patience.toNanos();
        return call(request, timeout, () -> end);
    }

    /** The same until a deadline of {@link System#nanoTime()}, which may move meanwhile. */
    CompletableFuture<Answer> call(Request request, Duration timeout, LongSupplier deadline) {
        CompletableFuture<Answer> result = new CompletableFuture<>();
        attempt(new Call(request, timeout, deadline, result), 0, false);
        return result;
    }

    private record Call(
            Request request, Duration timeout, LongSupplier deadline, CompletableFuture<Answer> result) {}

    private void attempt(Call call, int tries, boolean doubtBefore) {
        if (call.result.isDone()) return;
        var sent = once(call.request, call.timeout);
        call.result.whenComplete((answer, error) -> sent.cancel(true));
        sent.whenComplete((answer, thrown) -> {
            if (call.result.isDone()) return;
            if (thrown == null) {
                call.result.complete(answer);
                return;
            }
            DelayqException error = (DelayqException) unwrap(thrown);
            boolean inDoubt = doubtBefore || error.isInDoubt();
            long left = (call.deadline.getAsLong() - System.nanoTime()) / 1_000_000;
            Duration asked = error.retryAfter();
            long wait = asked == null ? Math.min(backoff(tries), Math.max(left, 0)) : asked.toMillis();
            if (!isRepeated(error) || left <= 0 || wait > left) {
                // A repeated removal finds nothing, because the first one has removed it.
                boolean isGone = tries > 0 && error instanceof DelayqException.NotFound && call.request.method().equals("DELETE");
                if (isGone && doubtBefore) call.result.complete(new Answer(204, name -> null, new byte[0]));
                else call.result.completeExceptionally(error.inDoubt(inDoubt));
                return;
            }
            CompletableFuture.delayedExecutor(wait, TimeUnit.MILLISECONDS)
                    .execute(() -> attempt(call, tries + 1, inDoubt));
        });
    }

    /** The answer to one request; an error is a {@link DelayqException}. */
    CompletableFuture<Answer> once(Request request, Duration timeout) {
        CompletableFuture<Answer> sent;
        try {
            sent = wire.send(request, timeout);
        } catch (IllegalArgumentException error) {
            return CompletableFuture.failedFuture(DelayqException.invalid(error.getMessage(), error));
        }
        var checked = sent.handle((answer, thrown) -> {
            if (thrown != null) throw lost(unwrap(thrown));
            if (answer.status() >= 300) throw refusal(answer);
            return answer;
        });
        checked.whenComplete((answer, error) -> sent.cancel(true));
        return checked;
    }

    static boolean isRepeated(DelayqException error) {
        return switch (error.status()) {
            case 408, 429, 502, 503, 504, 507 -> true;
            default -> error.status() == 0 && error.isRepeatable();
        };
    }

    static long backoff(int tries) {
        double longest = Math.min(5000, 100 * Math.pow(2, Math.min(tries, 10)));
        return Math.round(longest * (0.5 + 0.5 * ThreadLocalRandom.current().nextDouble()));
    }

    private static DelayqException lost(Throwable error) {
        if (error instanceof SSLException) {
            String text = "no TLS connection: " + error.getMessage() + "; is the URL to begin with http:// ?";
            return DelayqException.of(Problem.of("no-tls", 0, text), false, error);
        }
        boolean isSent = !(error instanceof ConnectException || error instanceof HttpConnectTimeoutException);
        String text = (isSent ? "the answer was lost: " : "the server is not reached: ") + error;
        String kind = isSent ? "in-doubt" : "unavailable";
        return DelayqException.of(new Problem(kind, 0, "no answer", text, true, null), isSent, error);
    }

    static DelayqException refusal(Answer answer) {
        Problem said = null;
        try {
            said = Json.read(answer.body(), Problem.class);
        } catch (DelayqException unreadable) {
            // A proxy has answered.
        }
        if (said == null || said.type() == null) {
            String text = new String(answer.body(), java.nio.charset.StandardCharsets.UTF_8);
            text = "status " + answer.status() + ": " + text.substring(0, Math.min(200, text.length()));
            said = new Problem(null, answer.status(), "no problem of delayq", text, answer.status() >= 500, null);
            // It says nothing about a task.
            if (answer.status() == 404) return new DelayqException(said, false, null);
        }
        String after = answer.header().apply("retry-after");
        boolean isNumber = after != null && after.matches("\\d{1,6}");
        var problem = new Problem(said.type(), answer.status(), said.title(), said.detail(), said.isRepeatable(),
                isNumber ? Integer.valueOf(after) : said.retryAfter());
        // A refusal of the server is certain; a gateway may have passed the request on.
        boolean inDoubt = answer.status() == 504 || answer.status() == 502;
        return DelayqException.of(problem, inDoubt, null);
    }

    static Throwable unwrap(Throwable error) {
        boolean isWrapped = error instanceof CompletionException || error instanceof ExecutionException;
        return isWrapped && error.getCause() != null ? unwrap(error.getCause()) : error;
    }

    Answer ask(Request request) {
        boolean isLarge = request.path().startsWith("/batches");
        return await(call(request, isLarge ? timeout.plus(App.LARGE) : timeout));
    }

    <T> T ask(Request request, Class<T> type) {
        return Json.read(ask(request).body(), type);
    }

    <T> T ask(Request request, JavaType type) {
        return Json.read(Json.API, ask(request).body(), type);
    }

    /** Waits for a result. An interrupt ends the wait, and the request. */
    static <T> T await(CompletableFuture<T> future) {
        try {
            return future.get();
        } catch (InterruptedException interrupt) {
            future.cancel(true);
            Thread.currentThread().interrupt();
            String text = "the thread was interrupted while it waited for the server";
            throw DelayqException.of(Problem.of("interrupted", 0, text), true, interrupt);
        } catch (ExecutionException error) {
            Throwable cause = unwrap(error);
            cause.setStackTrace(new Throwable().getStackTrace());
            if (cause instanceof RuntimeException known) throw known;
            throw new IllegalStateException(cause);
        }
    }
}
