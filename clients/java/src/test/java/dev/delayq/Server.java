package dev.delayq;

import java.io.File;
import java.io.IOException;
import java.net.ServerSocket;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Assumptions;

/** A server of its own, on a file in a temporary folder. */
final class Server implements AutoCloseable {
    static final String TOKEN = "dq_first_0123456789abcdef0123456789abcdef";
    final String url;
    private final Path folder;
    private Process process;

    Server() throws Exception {
        Assumptions.assumeTrue(program().canExecute(), "no server to test with: set DELAYQ_SERVER");
        int port;
        try (ServerSocket free = new ServerSocket(0)) {
            port = free.getLocalPort();
        }
        folder = Files.createTempDirectory("delayq-java");
        url = "http://127.0.0.1:" + port + "/v1/default";
        Files.writeString(folder.resolve("s.toml"), "listen = \"127.0.0.1:" + port + "\"\nstore = \"sqlite:"
                + folder.resolve("s.sqlite") + "\"\nbootstrap_token = \"" + TOKEN + "\"\n");
        start();
    }

    private static File program() {
        String named = System.getenv("DELAYQ_SERVER");
        return new File(named == null ? "../../target/release/delayq-server" : named).getAbsoluteFile();
    }

    void start() throws Exception {
        process = new ProcessBuilder(program().toString(), "--config", folder.resolve("s.toml").toString())
                .redirectErrorStream(true).redirectOutput(folder.resolve("log").toFile()).start();
        URI ready = URI.create(url).resolve("/health/ready");
        for (int tries = 0; tries < 200; tries++) {
            try {
                var said = HttpClient.newHttpClient().send(HttpRequest.newBuilder(ready).build(), HttpResponse.BodyHandlers.discarding());
                if (said.statusCode() == 200) return;
            } catch (IOException notYet) {
                // It is asked again.
            }
            TimeUnit.MILLISECONDS.sleep(50);
        }
        throw new IllegalStateException(Files.readString(folder.resolve("log")));
    }

    void kill() throws InterruptedException {
        process.destroyForcibly().waitFor();
    }

    App.Builder app() {
        return App.builder().url(url).token(TOKEN).timeout(Duration.ofSeconds(5)).grace(Duration.ofSeconds(1));
    }

    @Override
    public void close() throws Exception {
        kill();
    }
}
