package dev.delayq;

import java.util.LinkedHashMap;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import sun.misc.Signal;
import sun.misc.SignalHandler;

/** The signals that end a program. A second one ends it at once. */
final class Signals implements AutoCloseable {
    private final CountDownLatch signalled = new CountDownLatch(1);
    private final Map<Signal, SignalHandler> before = new LinkedHashMap<>();

    Signals() {
        for (String name : new String[] {"TERM", "INT"}) {
            Signal signal = new Signal(name);
            before.put(signal, Signal.handle(signal, this::handle));
        }
    }

    private void handle(Signal signal) {
        if (signalled.getCount() == 0) Runtime.getRuntime().halt(128 + signal.getNumber());
        signalled.countDown();
    }

    /** Waits for the first SIGTERM or SIGINT. */
    void await() {
        try {
            signalled.await();
        } catch (InterruptedException interrupt) {
            Thread.currentThread().interrupt();
        }
    }

    @Override
    public void close() {
        before.forEach(Signal::handle);
    }
}
