package dev.delayq;

import static java.lang.System.Logger.Level.INFO;
import static java.lang.System.Logger.Level.WARNING;

import com.fasterxml.jackson.databind.JavaType;
import dev.delayq.Attempt.Claimed;
import dev.delayq.Wire.Answer;
import dev.delayq.Wire.Request;
import java.time.Duration;
import java.util.List;
import java.util.Set;
import java.util.concurrent.CancellationException;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.Semaphore;

/** Claims tasks of one type, as many as there are free places. */
final class Worker<M> implements Runnable {
    /** The answer to a claim. */
    record Claims(List<Claimed> tasks) {}

    private static final Duration WAIT = Duration.ofSeconds(30);
    private static final int MOST = 128;
    /** Between claims that are answered at once, such as by a server that ends. */
    private static final Duration PAUSE = Duration.ofMillis(500);

    final String type;
    final TaskOptions options;
    private final App app;
    private final JavaType messageType;
    private final Handler.Replying<M> handler;
    private final Semaphore places;
    final Set<Attempt> running = ConcurrentHashMap.newKeySet();
    private volatile CompletableFuture<Answer> claim;
    private volatile Thread thread;
    private volatile boolean isStopping;

    Worker(App app, String type, JavaType messageType, TaskOptions options, Handler.Replying<M> handler) {
        this.app = app;
        this.type = type;
        this.messageType = messageType;
        this.options = options;
        this.handler = handler;
        places = new Semaphore(options.concurrency());
    }

    Object handle(byte[] message, TaskContext cx) throws Exception {
        M decoded;
        try {
            decoded = Json.read(app.mapper, message, messageType);
        } catch (DelayqException error) {
            throw new Dead("the message is " + error.detail(), error);
        }
        return handler.handle(decoded, cx);
    }

    synchronized void start() {
        isStopping = false;
        thread = new Thread(this, "delayq-claim-" + type);
        thread.setDaemon(true);
        thread.start();
    }

    /** Ends the waiting claim; what runs goes on. */
    synchronized void stop() {
        isStopping = true;
        CompletableFuture<Answer> waiting = claim;
        if (waiting != null) waiting.cancel(true);
        if (thread != null) thread.interrupt();
    }

    private boolean goesOn() {
        return !isStopping && thread == Thread.currentThread();
    }

    /** True if nothing runs, and nothing is claimed. */
    synchronized boolean isIdle() {
        return running.isEmpty() && (thread == null || !thread.isAlive() || !isStopping);
    }

    @Override
    public void run() {
        int failures = 0;
        while (goesOn()) {
            int free = 0;
            int taken = 0;
            try {
                places.acquire();
                free = 1;
                while (free < MOST && places.tryAcquire()) free++;
                long since = System.nanoTime();
                List<Attempt> attempts = claim(free, since);
                taken = attempts.size();
                if (taken == 0 && System.nanoTime() - since < 1_000_000_000L) Thread.sleep(PAUSE.toMillis());
                if (failures > 0) app.log(INFO, "tasks of " + type + " are claimed again", null);
                failures = 0;
                attempts.forEach(this::begin);
            } catch (InterruptedException | CancellationException stopped) {
                // The loop ends.
            } catch (RuntimeException | Error error) {
                if (!goesOn()) return;
                if (failures++ == 0) app.log(WARNING, "no task of " + type + " is claimed: " + error.getMessage(), null);
                pause(error instanceof DelayqException refusal ? refusal.retryAfter() : null, failures);
            } finally {
                places.release(Math.max(0, free - taken));
            }
        }
    }

    private List<Attempt> claim(int free, long since) {
        String query = "?limit=" + free + "&wait=" + WAIT.toMillis() + "&lock_for=" + options.lock().toMillis();
        Request request = Request.of("POST", "/types/" + Json.part(type) + "/claim" + query);
        claim = app.client.once(request, WAIT.plus(app.client.timeout()));
        if (isStopping) claim.cancel(true);
        Answer answer;
        try {
            answer = claim.join();
        } catch (java.util.concurrent.CompletionException error) {
            throw Client.unwrap(error) instanceof DelayqException known ? known : error;
        }
        List<Claimed> tasks = Json.read(answer.body(), Claims.class).tasks();
        return tasks.stream().map(task -> new Attempt(app, this, task, since)).toList();
    }

    private void begin(Attempt attempt) {
        running.add(attempt);
        try {
            if (isStopping) throw new CancellationException("the app stops");
            Thread thread = app.threads.newThread(attempt);
            if (!thread.isDaemon()) thread.setDaemon(true);
            thread.start();
        } catch (RuntimeException | OutOfMemoryError error) {
            app.log(INFO, attempt + " is given back: " + error.getMessage(), null);
            attempt.giveBack().whenComplete((answer, failure) -> ended(attempt));
        }
    }

    /** Runs one task on this thread. */
    void runNow(Claimed task) {
        new Attempt(app, this, task, System.nanoTime()).run();
    }

    void ended(Attempt attempt) {
        if (running.remove(attempt)) places.release();
    }

    private void pause(Duration asked, int failures) {
        try {
            Thread.sleep(asked == null ? Client.backoff(failures) : asked.toMillis());
        } catch (InterruptedException stopped) {
            // The loop ends.
        }
    }
}
