package dev.delayq;

import dev.delayq.Attempt.Claimed;
import java.time.Duration;
import java.time.Instant;
import java.util.List;

/**
 * An app without a server, for tests. It keeps what is sent, and {@link #advance} runs what is due on the thread that
 * calls it, in order and in virtual time. Recurring tasks and limits of a server are not in it.
 */
public final class TestApp extends App {
    private final Memory memory;

    public TestApp() {
        this(new Memory());
    }

    private TestApp(Memory memory) {
        super(App.builder().patience(Duration.ZERO), memory);
        this.memory = memory;
    }

    /** The present time; it begins at 2030-01-01T00:00:00Z. */
    public Instant now() {
        return Instant.ofEpochMilli(memory.now);
    }

    /** The tasks of a type, in the order in which they were sent. */
    public List<TaskInfo> tasks(String type) {
        return memory.tasks(type);
    }

    /** Runs what is due within this span of virtual time and has a handler, and returns how many attempts that were. */
    public int advance(Duration span) {
        long end = memory.now + span.toMillis();
        List<String> types = workers.stream().map(worker -> worker.type).toList();
        int attempts = 0;
        for (Claimed task = memory.claim(types, end); task != null; task = memory.claim(types, end)) {
            if (++attempts > 100_000) throw new IllegalStateException("the tasks send each other without an end");
            String type = task.type();
            Claimed claimed = task;
            workers.stream().filter(worker -> worker.type.equals(type)).forEach(worker -> worker.runNow(claimed));
        }
        memory.now = end;
        return attempts;
    }

    /** Refused: {@link #advance} runs the handlers. */
    @Override
    public void start() {
        throw new IllegalStateException("a TestApp runs handlers in advance(..)");
    }
}
