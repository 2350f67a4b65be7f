package dev.delayq;

import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpRequest.BodyPublishers;
import java.net.http.HttpResponse;
import java.time.Duration;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.function.Function;

/** What carries requests: HTTP, or the memory of a {@link TestApp}. */
@FunctionalInterface
interface Wire {
    /** The answer within the timeout. If the future is cancelled, the connection is closed. */
    CompletableFuture<Answer> send(Request request, Duration timeout);

    /** A request to the namespace; the path begins with a slash and is encoded. */
    record Request(String method, String path, Map<String, String> headers, byte[] body) {
        static Request of(String method, String path) {
            return new Request(method, path, Map.of(), new byte[0]);
        }

        static Request json(String method, String path, Object form) {
            return new Request(method, path, Map.of("Content-Type", "application/json"), Json.write(Json.API, form));
        }
    }

    record Answer(int status, Function<String, String> header, byte[] body) {}

    /** Over HTTP/1.1: a long poll is a connection of its own, which ends with it. */
    record Http(HttpClient client, String base, String token) implements Wire {
        @Override
        public CompletableFuture<Answer> send(Request request, Duration timeout) {
            HttpRequest.Builder builder = HttpRequest.newBuilder(URI.create(base + request.path))
                    .version(HttpClient.Version.HTTP_1_1)
                    .header("Authorization", "Bearer " + token)
                    .method(request.method, BodyPublishers.ofByteArray(request.body));
            request.headers.forEach(builder::header);
            var sent = client.sendAsync(builder.build(), HttpResponse.BodyHandlers.ofByteArray());
            // The timeout of HttpRequest ends with the headers; this one is for the body, too.
            var answer = sent.thenApply(said -> new Answer(
                    said.statusCode(), name -> said.headers().firstValue(name).orElse(null), said.body()));
            answer.orTimeout(timeout.toMillis(), TimeUnit.MILLISECONDS).whenComplete((said, error) -> {
                if (error != null) sent.cancel(true);
            });
            return answer;
        }
    }
}
