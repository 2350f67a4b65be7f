package dev.delayq;

import static java.lang.System.Logger.Level.INFO;

import com.fasterxml.jackson.core.type.TypeReference;
import com.fasterxml.jackson.databind.JavaType;
import com.fasterxml.jackson.databind.ObjectMapper;
import dev.delayq.Wire.Answer;
import dev.delayq.Wire.Request;
import java.net.URI;
import java.net.URLEncoder;
import java.net.http.HttpClient;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.time.Instant;
import java.time.ZoneId;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.Callable;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.ThreadFactory;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** Sends tasks to a delayq server, and works on them. One app serves a program; all its methods are thread-safe. */
public class App implements AutoCloseable {
    private static final System.Logger LOG = System.getLogger("dev.delayq");
    private static final Duration SLICE = Duration.ofSeconds(30);
    /** What a large request may take beyond the time limit of others. */
    static final Duration LARGE = Duration.ofSeconds(50);

    private static final boolean IS_TRACED = isTraced();

    final Client client;
    final ObjectMapper mapper;
    final ThreadFactory threads;
    final ScheduledExecutorService timer;
    private final Duration grace;
    private final boolean traceOwnIds;
    final List<Worker<?>> workers = new CopyOnWriteArrayList<>();
    private final List<Handler.Around> arounds = new CopyOnWriteArrayList<>();
    private boolean isStarted;

    /** An app for the namespace at {@code DELAYQ_HTTP} with the token {@code DELAYQ_TOKEN} of the environment. */
    public App() {
        this(builder());
    }

    /** An app for a namespace, such as {@code http://127.0.0.1:7880/v1/default}, or a server, with a token. */
    public App(String url, String token) {
        this(builder().url(url).token(token));
    }

    private App(Builder options) {
        this(options, new Wire.Http(
                HttpClient.newBuilder().connectTimeout(options.timeout.dividedBy(2)).build(), options.base(), options.token()));
    }

    App(Builder options, Wire wire) {
        client = new Client(wire, options.timeout, options.patience);
        mapper = options.mapper;
        threads = options.threads;
        grace = options.grace;
        traceOwnIds = options.traceOwnIds;
        timer = wire instanceof Memory ? null : Executors.newSingleThreadScheduledExecutor(App::daemon);
        if (IS_TRACED) arounds.add(Tracing::around);
    }

    /** True if the API of OpenTelemetry is there. */
    private static boolean isTraced() {
        try {
            Class.forName("io.opentelemetry.api.trace.propagation.W3CTraceContextPropagator");
            return true;
        } catch (ClassNotFoundException | LinkageError none) {
            return false;
        }
    }

    private static Thread daemon(Runnable work) {
        Thread thread = new Thread(work, "delayq");
        thread.setDaemon(true);
        return thread;
    }

    public static Builder builder() {
        return new Builder();
    }

    /** The options of an app. */
    public static final class Builder {
        private static final Pattern PLACE = Pattern.compile("(.*)/v1/([^/]+)/?");
        private String url = System.getenv("DELAYQ_HTTP");
        private String token = System.getenv("DELAYQ_TOKEN");
        private String namespace;
        private Duration timeout = Duration.ofSeconds(10);
        private Duration patience = Duration.ofSeconds(30);
        private Duration grace = Duration.ofSeconds(20);
        private ObjectMapper mapper = Json.MESSAGES;
        private boolean traceOwnIds;
        private ThreadFactory threads = work -> new Thread(work, "delayq-task");

        private Builder() {}

        /** The address of a namespace, or of the server; by default {@code DELAYQ_HTTP} of the environment. */
        public Builder url(String url) {
            this.url = url;
            return this;
        }

        /** By default {@code DELAYQ_TOKEN} of the environment. */
        public Builder token(String token) {
            this.token = token;
            return this;
        }

        /** The namespace, if the URL names none; otherwise {@code default}. */
        public Builder namespace(String namespace) {
            this.namespace = namespace;
            return this;
        }

        /** How long one request may take; 10 s. */
        public Builder timeout(Duration timeout) {
            this.timeout = timeout;
            return this;
        }

        /** How long a call is repeated while its end is not certain, or the server is away; 30 s. */
        public Builder patience(Duration patience) {
            this.patience = patience;
            return this;
        }

        /** How long running handlers have to end once the app stops; 20 s. */
        public Builder grace(Duration grace) {
            this.grace = grace;
            return this;
        }

        /** Sends the trace context also with ids of your own. The same id sent by another request is then another task. */
        public Builder traceOwnIds(boolean traceOwnIds) {
            this.traceOwnIds = traceOwnIds;
            return this;
        }

        /** What reads and writes messages. */
        public Builder mapper(ObjectMapper mapper) {
            this.mapper = mapper;
            return this;
        }

        /** Makes the threads of handlers, such as {@code Thread.ofVirtual().factory()} of Java 21. */
        public Builder threads(ThreadFactory threads) {
            this.threads = threads;
            return this;
        }

        public App build() {
            return new App(this);
        }

        private String token() {
            String text = token == null ? "" : token.strip();
            if (text.isEmpty()) throw DelayqException.invalid("no token: set DELAYQ_TOKEN, or give one", null);
            if (!text.matches("[!-~]+")) throw DelayqException.invalid("the token has blanks or other characters", null);
            return text;
        }

        private String base() {
            String text = url == null ? "" : url.strip();
            String say = "use the address of a namespace, such as http://127.0.0.1:7880/v1/default";
            if (text.isEmpty()) throw DelayqException.invalid("no URL: set DELAYQ_HTTP, or give one; " + say, null);
            URI uri;
            try {
                uri = URI.create(text);
            } catch (IllegalArgumentException error) {
                throw DelayqException.invalid("the URL is not valid: " + error.getMessage() + "; " + say, error);
            }
            boolean isHttp = "http".equals(uri.getScheme()) || "https".equals(uri.getScheme());
            if (!isHttp || uri.getHost() == null) throw DelayqException.invalid("the URL is not http or https; " + say, null);
            if (uri.getRawQuery() != null || uri.getRawFragment() != null || uri.getRawUserInfo() != null) {
                throw DelayqException.invalid("the URL has a query, a fragment or a user; " + say, null);
            }
            String path = uri.getRawPath().replaceAll("/+$", "");
            String server = uri.getScheme() + "://" + uri.getRawAuthority();
            String named = namespace == null ? "default" : Json.part(namespace);
            if (path.isEmpty()) return server + "/v1/" + named;
            Matcher place = PLACE.matcher(path);
            if (!place.matches()) throw DelayqException.invalid("the path of the URL is " + path + "; " + say, null);
            if (namespace != null && !place.group(2).equals(named)) {
                throw DelayqException.invalid("the URL names another namespace than the option: give one of them", null);
            }
            return server + path;
        }
    }

    // ---- sending

    /** Sends a task. It is repeated under the same id until it is certain. */
    public Receipt send(Task task) {
        return Client.await(sendAsync(task));
    }

    /** Sends a task that is due at once. */
    public Receipt send(String type, Object message) {
        return send(Task.of(type, message));
    }

    /** Sends a task; the future ends with the receipt or a {@link DelayqException}. */
    public CompletableFuture<Receipt> sendAsync(Task task) {
        try {
            return client.call(creation(traced(task).named()), client.timeout())
                    .thenApply(answer -> Json.read(answer.body(), Receipt.class));
        } catch (DelayqException invalid) {
            return CompletableFuture.failedFuture(invalid);
        }
    }

    private Request creation(Task task) {
        Map<String, String> headers = new LinkedHashMap<>();
        if (!(task.message instanceof byte[])) headers.put("Content-Type", "application/json");
        task.headers.forEach((name, value) -> {
            if (!value.matches("[ -~\\t]*")) throw DelayqException.invalid("the header " + name + " is not ASCII", null);
            headers.put(name.equals("content-type") ? "Content-Type" : "Delayq-Header-" + name, value);
        });
        StringBuilder query = new StringBuilder();
        task.options.forEach((name, value) -> {
            String text = URLEncoder.encode(String.valueOf(value), StandardCharsets.UTF_8);
            if (!name.equals("id")) query.append(query.isEmpty() ? "?" : "&").append(name).append("=").append(text);
        });
        boolean isNamed = task.id() != null;
        String path = isNamed ? place(task.type, task.id()) : "/types/" + Json.part(task.type) + "/tasks";
        return new Request(isNamed ? "PUT" : "POST", path + query, headers, task.body(mapper));
    }

    /** A task with an id of its own is recognised by its headers, too: from another span it would be a conflict. */
    Task traced(Task task) {
        return IS_TRACED && (traceOwnIds || task.id() == null) ? Tracing.inject(task) : task;
    }

    /** Sends a task, and waits for the reply of its worker: see {@link #reply}. */
    public Receipt sendAndWait(Task task, Duration wait) {
        Receipt receipt = send(task);
        return receipt.with(reply(task.type, receipt.id(), wait));
    }

    /** Sends many tasks, and says for each, in order, what became of it. */
    public List<SendResult> sendAll(List<Task> tasks) {
        return new Bulk(this).send(tasks.stream().map(task -> traced(task).named()).toList());
    }

    /**
     * Waits for the end of a task and returns the reply of its worker. A task that is dead, cancelled or expired is a
     * {@link DelayqException} of the kind {@code dead}, {@code cancelled} or {@code expired}.
     */
    public Reply reply(String type, String id, Duration wait) {
        long end = System.nanoTime() + wait.toNanos();
        while (true) {
            long left = Math.max(0, (end - System.nanoTime()) / 1_000_000);
            Duration slice = Duration.ofMillis(Math.min(left, SLICE.toMillis()));
            Request request = Request.of("GET", place(type, id) + "/reply?wait=" + slice.toMillis());
            Answer answer = Client.await(client.call(request, client.timeout().plus(slice)));
            if (answer.status() == 200) return new Reply(State.DONE, answer.header().apply("content-type"), answer.body());
            if (answer.status() == 204) return new Reply(State.DONE, null, null);
            if (left <= slice.toMillis()) return new Reply(State.PENDING, null, null);
        }
    }

    // ---- tasks

    /** Cancels a task: {@link Outcome#CANCELLED}, or {@link Outcome#RUNNING} if it runs and is asked to stop. */
    public Outcome cancel(String type, String id) {
        return client.ask(Request.of("DELETE", place(type, id)), Answered.class).outcome;
    }

    private record Answered(Outcome outcome, Instant dueAt) {}

    /** The task, if it is known. */
    public Optional<TaskInfo> find(String type, String id) {
        return known(Request.of("GET", place(type, id)), TaskInfo.class);
    }

    /** Makes a scheduled task due after this delay from now, and returns when that is. */
    public Instant reschedule(String type, String id, Duration after) {
        return changed("POST", type, id, "/reschedule?delay=" + after.toMillis());
    }

    /** Makes a scheduled task due at this time. */
    public Instant reschedule(String type, String id, Instant at) {
        return changed("POST", type, id, "/reschedule?at=" + at.toEpochMilli());
    }

    /** Makes a scheduled task due now. */
    public Instant runNow(String type, String id) {
        return changed("POST", type, id, "/run-now");
    }

    private Instant changed(String method, String type, String id, String what) {
        return client.ask(Request.of(method, place(type, id) + what), Answered.class).dueAt;
    }

    /** Replaces the message of a scheduled task, and returns when it is due. */
    public Instant update(String type, String id, Object message) {
        Task task = Task.of(type, message);
        Map<String, String> headers = message instanceof byte[] ? Map.of() : Map.of("Content-Type", "application/json");
        Request request = new Request("PUT", place(type, id) + "/message", headers, task.body(mapper));
        return client.ask(request, Answered.class).dueAt;
    }

    /** The ended lives of a task, latest first, if the server keeps a history. */
    public List<Life> history(String type, String id) {
        return client.ask(Request.of("GET", place(type, id) + "/history"), Fate.class).lives;
    }

    private record Fate(List<Life> lives) {}

    static String place(String type, String id) {
        return "/types/" + Json.part(type) + "/tasks/" + Json.part(id);
    }

    private <T> Optional<T> known(Request request, Class<T> type) {
        try {
            return Optional.of(client.ask(request, type));
        } catch (DelayqException.NotFound none) {
            return Optional.empty();
        }
    }

    // ---- batches and recurring tasks

    /** Sends many tasks, and one more once all of them have ended. */
    public Batch.Sent sendBatch(String name, List<Task> tasks, Task then) {
        Map<String, Object> form = new LinkedHashMap<>();
        form.put("tasks", tasks.stream().map(task -> task.line(mapper, true)).toList());
        form.put("then", then.line(mapper, true));
        return client.ask(Request.json("PUT", "/batches/" + Json.part(name), form), Batch.Sent.class);
    }

    /** How far a batch is, if it is known. */
    public Optional<Batch> batch(String name) {
        return known(Request.of("GET", "/batches/" + Json.part(name)), Batch.class);
    }

    /** Cancels the tasks of a batch that have not ended. */
    public Batch.Cancelled cancelBatch(String name) {
        return client.ask(Request.of("DELETE", "/batches/" + Json.part(name)), Batch.Cancelled.class);
    }

    /** Declares a recurring task in UTC: {@code every} is five fields of cron, or an interval such as {@code 15m}. */
    public Recurring setRecurring(String id, String every, Task task) {
        return setRecurring(id, every, null, task);
    }

    /** Declares a recurring task in this time zone, or changes it. */
    public Recurring setRecurring(String id, String every, ZoneId zone, Task task) {
        Map<String, Object> form = task.line(mapper, true);
        form.put("every", every);
        if (zone != null) form.put("zone", zone.getId());
        return client.ask(Request.json("PUT", "/recurring/" + Json.part(id), form), Recurring.class);
    }

    public Recurring pauseRecurring(String id) {
        return client.ask(Request.of("POST", "/recurring/" + Json.part(id) + "/pause"), Recurring.class);
    }

    public Recurring resumeRecurring(String id) {
        return client.ask(Request.of("POST", "/recurring/" + Json.part(id) + "/resume"), Recurring.class);
    }

    public void removeRecurring(String id) {
        client.ask(Request.of("DELETE", "/recurring/" + Json.part(id)));
    }

    /** All recurring tasks that were declared to the server. */
    public List<Recurring> listRecurring() {
        List<Recurring> all = new ArrayList<>();
        String cursor = null;
        do {
            String query = "?limit=128" + (cursor == null ? "" : "&cursor=" + Json.part(cursor));
            RecurringPage page = client.ask(Request.of("GET", "/recurring" + query), RecurringPage.class);
            all.addAll(page.recurring);
            cursor = page.next;
        } while (cursor != null);
        return all;
    }

    private record RecurringPage(List<Recurring> recurring, String next) {}

    // ---- working

    /** Registers the handler of a type, one at a time. */
    public <M> App task(String type, Class<M> message, Handler<M> handler) {
        return task(type, message, TaskOptions.defaults(), handler);
    }

    /** Registers the handler of a type. A {@code byte[]} is the message as it is, anything else is read from JSON. */
    public <M> App task(String type, Class<M> message, TaskOptions options, Handler<M> handler) {
        return add(type, mapper.constructType(message), options, quiet(handler));
    }

    /** Registers the handler of a type whose message has type parameters. */
    public <M> App task(String type, TypeReference<M> message, TaskOptions options, Handler<M> handler) {
        return add(type, mapper.constructType(message), options, quiet(handler));
    }

    /** Registers a handler whose result is the reply of the task. */
    public <M> App taskWithReply(String type, Class<M> message, TaskOptions options, Handler.Replying<M> handler) {
        return add(type, mapper.constructType(message), options, handler);
    }

    private static <M> Handler.Replying<M> quiet(Handler<M> handler) {
        return (message, cx) -> {
            handler.handle(message, cx);
            return null;
        };
    }

    private synchronized <M> App add(String type, JavaType message, TaskOptions options, Handler.Replying<M> handler) {
        Json.part(type);
        if (workers.stream().anyMatch(one -> one.type.equals(type))) {
            throw DelayqException.invalid("the type " + type + " has a handler already", null);
        }
        Worker<M> worker = new Worker<>(this, type, message, options, handler);
        workers.add(worker);
        if (isStarted) worker.start();
        return this;
    }

    /** Runs around every attempt; the first one is the outermost. */
    public App around(Handler.Around around) {
        arounds.add(around);
        return this;
    }

    Object run(TaskContext cx, Callable<Object> handler) throws Exception {
        Callable<Object> all = handler;
        for (int at = arounds.size() - 1; at >= 0; at--) {
            Handler.Around around = arounds.get(at);
            Callable<Object> next = all;
            all = () -> around.run(cx, next);
        }
        return all.call();
    }

    /** Starts to work on the registered types, on threads of its own. */
    public synchronized void start() {
        if (workers.isEmpty()) throw DelayqException.invalid("no handler is registered: call task(..) before", null);
        if (isStarted) return;
        isStarted = true;
        workers.forEach(Worker::start);
    }

    /** Works until SIGTERM or SIGINT, and stops gracefully then. A second signal ends the program at once. */
    public void run() {
        try (Signals signals = new Signals()) {
            start();
            signals.await();
            log(INFO, "stops: no more tasks are claimed", null);
            stop();
        }
    }

    /** Stops to claim, waits for running handlers as long as the grace lasts, and gives back what has not ended. */
    public void stop() {
        synchronized (this) {
            if (!isStarted) return;
            isStarted = false;
            workers.forEach(Worker::stop);
        }
        if (isIdle(grace)) return;
        running().forEach(attempt -> attempt.stop(Stop.SHUTDOWN));
        if (isIdle(Duration.ofSeconds(2))) return;
        var back = running().stream().map(Attempt::giveBack).toArray(CompletableFuture[]::new);
        CompletableFuture.allOf(back).completeOnTimeout(null, 5, java.util.concurrent.TimeUnit.SECONDS)
                .exceptionally(error -> null).join();
    }

    private List<Attempt> running() {
        return workers.stream().flatMap(worker -> worker.running.stream()).toList();
    }

    /** Waits until nothing runs. */
    private boolean isIdle(Duration wait) {
        long end = System.nanoTime() + wait.toNanos();
        boolean wasInterrupted = Thread.interrupted();
        try {
            while (!workers.stream().allMatch(Worker::isIdle) && System.nanoTime() < end) Thread.sleep(20);
        } catch (InterruptedException hurry) {
            wasInterrupted = true;
        }
        if (wasInterrupted) Thread.currentThread().interrupt();
        return workers.stream().allMatch(Worker::isIdle);
    }

    /** Stops, as {@link #stop()}. */
    @Override
    public void close() {
        stop();
        if (timer != null) timer.shutdownNow();
    }

    void log(System.Logger.Level level, String text, Throwable error) {
        if (error == null) LOG.log(level, text);
        else LOG.log(level, text, error);
    }
}
