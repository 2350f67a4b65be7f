package dev.delayq;

import static java.lang.System.Logger.Level.DEBUG;
import static java.lang.System.Logger.Level.ERROR;
import static java.lang.System.Logger.Level.WARNING;

import dev.delayq.Wire.Answer;
import dev.delayq.Wire.Request;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.EnumSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.function.Consumer;

/** One attempt of a task: from the claim to the certain end. */
final class Attempt implements TaskContext, Runnable {
    /** A task as a claim answers it. */
    record Claimed(
            String type, String id, String lock, long fence, int attempt, Instant dueAt, Instant submittedAt,
            Map<String, String> headers, String lastError, String message, byte[] messageBase64) {
        byte[] bytes() {
            return message == null ? messageBase64 : message.getBytes(StandardCharsets.UTF_8);
        }
    }

    /** The end of a request of a worker. */
    private record Answered(String outcome) {}

    private final App app;
    private final Worker<?> worker;
    private final Claimed task;
    private final List<Task> followUps = new ArrayList<>();
    private final List<Consumer<Stop>> listeners = new ArrayList<>();
    private final Set<Stop> stops = EnumSet.noneOf(Stop.class);
    /** Set by whoever reports the end of the attempt. */
    private final AtomicBoolean isReported = new AtomicBoolean();
    private volatile long lockEnd;
    private volatile boolean isOver;
    /** Extensions that have failed since the last good one; they come one after the other. */
    private volatile int failures;
    private Thread handling;

    Attempt(App app, Worker<?> worker, Claimed task, long lockedSince) {
        this.app = app;
        this.worker = worker;
        this.task = task;
        lockEnd = lockedSince + worker.options.lock().toNanos();
    }

    @Override
    public void run() {
        try {
            if (!isHeld()) return;
            extendIn(worker.options.lock().toMillis() / 3);
            Object reply = null;
            Throwable failure = null;
            try {
                synchronized (this) {
                    handling = Thread.currentThread();
                }
                reply = app.run(this, () -> worker.handle(task.bytes(), this));
            } catch (Throwable thrown) {
                failure = thrown;
            }
            synchronized (this) {
                handling = null;
            }
            Thread.interrupted(); // an interrupt that was for the handler
            if (isLost()) {
                app.log(WARNING, this + " has lost its lock, and reports nothing", failure);
            } else if (isReported.compareAndSet(false, true)) {
                report(end(reply, failure));
            }
        } catch (RuntimeException | Error unexpected) {
            app.log(ERROR, this + " has no certain end", unexpected);
        } finally {
            isOver = true;
            worker.ended(this);
        }
    }

    /** False if the claim is so old that the lock may have ended: a process may have been stopped. */
    private boolean isHeld() {
        long now = System.nanoTime();
        if (lockEnd - now > worker.options.lock().toNanos() / 3) return true;
        try {
            Client.await(app.client.once(extension(), app.client.timeout()));
            lockEnd = now + worker.options.lock().toNanos();
            return true;
        } catch (DelayqException error) {
            app.log(WARNING, this + " is not started, because its lock is not certain: " + error.getMessage(), null);
            if (!(error instanceof DelayqException.LockLost)) report(End.of("release", "", ""));
            return false;
        }
    }

    private Request request(String what, String query) {
        return Request.of("POST", App.place(task.type, task.id) + "/" + what + "?lock=" + Json.part(task.lock) + query);
    }

    private Request extension() {
        return request("extend", "&lock_for=" + worker.options.lock().toMillis());
    }

    private void extendIn(long millis) {
        if (app.timer != null && !isOver) app.timer.schedule(this::extend, millis, TimeUnit.MILLISECONDS);
    }

    private void extend() {
        long now = System.nanoTime();
        long lock = worker.options.lock().toMillis();
        if (isOver) return;
        if (lockEnd - now <= 0) {
            stop(Stop.LOST);
            return;
        }
        // Half of what is left, so that a connection that hangs does not cost the lock.
        long half = Math.max(500, (lockEnd - now) / 2_000_000);
        Duration timeout = Duration.ofMillis(Math.min(half, app.client.timeout().toMillis()));
        var said = app.client.once(extension(), timeout)
                .thenApply(answer -> Json.read(answer.body(), Answered.class).outcome());
        said.whenComplete((outcome, thrown) -> {
            if (thrown == null) {
                lockEnd = now + worker.options.lock().toNanos();
                failures = 0;
                extendIn(lock / 3);
                if ("cancel_requested".equals(outcome)) stop(Stop.CANCELLED);
            } else if (Client.unwrap(thrown) instanceof DelayqException.LockLost) {
                stop(Stop.LOST);
            } else {
                app.log(DEBUG, this + ": its lock is not extended", thrown);
                long rest = Math.max(0, (lockEnd - System.nanoTime()) / 1_000_000 + 1);
                extendIn(Math.min(rest, Client.backoff(failures++)));
            }
        });
    }

    /** Tells the handler to stop. */
    void stop(Stop why) {
        List<Consumer<Stop>> called;
        synchronized (this) {
            if (handling == null || !stops.add(why)) return;
            called = List.copyOf(listeners);
            handling.interrupt();
        }
        called.forEach(listener -> CompletableFuture.runAsync(() -> listener.accept(why)));
    }

    /** Gives the task back although its handler has not ended. */
    CompletableFuture<Answer> giveBack() {
        if (isLost() || !isReported.compareAndSet(false, true)) return CompletableFuture.completedFuture(null);
        return app.client.call(request("release", ""), app.client.timeout());
    }

    private record End(String what, String query, byte[] body, String contentType) {
        static End of(String what, String query, String text) {
            return new End(what, query, text.getBytes(StandardCharsets.UTF_8), "text/plain; charset=utf-8");
        }
    }

    private End end(Object reply, Throwable failure) {
        if (failure == null) return done(reply);
        if (isCancelled()) return End.of("fail", "", "cancelled");
        if (failure instanceof Dead) return End.of("fail", "&dead=true", cut(failure.getMessage()));
        if (failure instanceof Later later) return End.of("release", "&after=" + later.after.toMillis(), "");
        if (stops.contains(Stop.SHUTDOWN) && !(failure instanceof RetryAfter)) return End.of("release", "", "");
        return failed(failure);
    }

    private End failed(Throwable failure) {
        app.log(WARNING, this + " failed", failure);
        Retry retry = worker.options.retry();
        String query = retry == null ? "" : "&max_attempts=" + retry.max();
        if (failure instanceof RetryAfter error) {
            return End.of("fail", query + "&retry_after=" + error.after.toMillis(), cut(error.getMessage()));
        }
        if (retry != null) query += "&retry_after=" + retry.waitMillis(task.attempt, app.timer == null);
        return End.of("fail", query, cut(failure.toString()));
    }

    private End done(Object reply) {
        try {
            if (!followUps.isEmpty()) {
                if (reply instanceof byte[]) throw new IllegalStateException("a reply of a task with follow-ups is JSON");
                Map<String, Object> form = new LinkedHashMap<>();
                form.put("then", followUps.stream().map(next -> next.line(app.mapper, true)).toList());
                if (reply != null) form.put("reply", app.mapper.valueToTree(reply));
                return new End("done-then", "", Json.write(Json.API, form), "application/json");
            }
            if (reply == null) return End.of("done", "", "");
            if (reply instanceof byte[] bytes) return new End("done", "", bytes, "application/octet-stream");
            return new End("done", "", Json.write(app.mapper, reply), "application/json");
        } catch (RuntimeException unwritable) {
            return failed(unwritable);
        }
    }

    private static String cut(String text) {
        return text == null ? "" : text.substring(0, Math.min(2000, text.length()));
    }

    /** Sends the end until it is certain, as long as the lock lasts and the patience after it. */
    private void report(End end) {
        Request plain = request(end.what, end.query);
        Map<String, String> headers = end.body.length == 0 ? Map.of() : Map.of("Content-Type", end.contentType);
        Request request = new Request("POST", plain.path(), headers, end.body);
        try {
            Client.await(app.client.call(request, app.client.timeout(), () -> lockEnd + app.client.patience().toNanos()));
        } catch (DelayqException.LockLost lost) {
            app.log(WARNING, this + " had lost its lock: its end is not stored", null);
        } catch (DelayqException refused) {
            boolean isUnknown = Client.isRepeated(refused) || end.what.equals("fail");
            app.log(isUnknown ? ERROR : WARNING, this + ": its end is not stored: " + refused.getMessage(), null);
            // Such as a reply that is too long.
            if (!isUnknown) report(failed(new IllegalStateException("its end was refused: " + refused.getMessage())));
        }
    }

    @Override
    public String type() {
        return task.type;
    }

    @Override
    public String id() {
        return task.id;
    }

    @Override
    public int attempt() {
        return task.attempt;
    }

    @Override
    public long fence() {
        return task.fence;
    }

    @Override
    public Instant dueAt() {
        return task.dueAt;
    }

    @Override
    public Instant submittedAt() {
        return task.submittedAt;
    }

    @Override
    public Map<String, String> headers() {
        return task.headers;
    }

    @Override
    public String lastError() {
        return task.lastError;
    }

    @Override
    public synchronized boolean isCancelled() {
        return stops.contains(Stop.CANCELLED);
    }

    @Override
    public synchronized boolean isLost() {
        return stops.contains(Stop.LOST);
    }

    @Override
    public synchronized void onStop(Consumer<Stop> listener) {
        listeners.add(listener);
        stops.forEach(why -> CompletableFuture.runAsync(() -> listener.accept(why)));
    }

    @Override
    public synchronized void then(Task next) {
        followUps.add(app.traced(next));
    }

    @Override
    public String toString() {
        return task.type + " " + task.id + " (attempt " + task.attempt + ")";
    }
}
