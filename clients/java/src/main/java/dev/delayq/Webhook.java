package dev.delayq;

import dev.delayq.DelayqException.Problem;
import java.nio.charset.StandardCharsets;
import java.security.GeneralSecurityException;
import java.security.MessageDigest;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.TreeMap;
import java.util.function.Function;
import javax.crypto.Mac;
import javax.crypto.spec.SecretKeySpec;

/** Verifies the web hooks that a server pushes, as Standard Webhooks specifies. */
public final class Webhook {
    private static final String HEADER = "delayq-header-";
    private final List<byte[]> keys = new ArrayList<>();
    private final long tolerance;

    /** A verified push. {@code webhookId} is the same in every attempt of a task; the signature covers it and the body. */
    public record Hook(
            String webhookId, String namespace, String type, String id, int attempt, long fence, Instant dueAt,
            Map<String, String> headers, byte[] body) {
        /** The message as an object. */
        public <T> T json(Class<T> type) {
            return Json.read(Json.MESSAGES, body, Json.MESSAGES.constructType(type));
        }
    }

    /** The secrets of the target, such as {@code whsec_..}: the new one and the old one while they are changed. */
    public Webhook(String... secrets) {
        this(Duration.ofMinutes(5), secrets);
    }

    /** With another tolerance of the timestamp than 5 minutes. */
    public Webhook(Duration tolerance, String... secrets) {
        this.tolerance = tolerance.toSeconds();
        for (String secret : secrets) {
            try {
                keys.add(Base64.getDecoder().decode(secret.strip().replaceFirst("^whsec_", "")));
            } catch (IllegalArgumentException error) {
                throw DelayqException.invalid("a secret is whsec_ and base64: " + error.getMessage(), error);
            }
        }
        if (keys.isEmpty() || keys.stream().anyMatch(key -> key.length == 0)) {
            throw DelayqException.invalid("no secret: give the one that the target was answered with", null);
        }
    }

    /** Verifies a request by its headers, each with a value or a list of values; {@link DelayqException.InvalidSignature}: answer 401. */
    public Hook verify(Map<String, ?> headers, byte[] body) {
        Map<String, String> small = new TreeMap<>();
        headers.forEach((name, value) -> {
            Object first = value instanceof Iterable<?> all ? (all.iterator().hasNext() ? all.iterator().next() : null) : value;
            if (name != null && first != null) small.put(name.toLowerCase(Locale.ROOT), first.toString());
        });
        Map<String, String> ofTask = new TreeMap<>();
        small.forEach((name, value) -> {
            if (name.startsWith(HEADER)) ofTask.put(name.substring(HEADER.length()), value);
        });
        return verify(small::get, ofTask, body);
    }

    /** Verifies a request by a look-up of its headers, such as {@code request::getHeader}. The push has no headers of the task then. */
    public Hook verify(Function<String, String> header, byte[] body) {
        return verify(header, Map.of(), body);
    }

    private Hook verify(Function<String, String> header, Map<String, String> ofTask, byte[] body) {
        String id = header.apply("webhook-id");
        String time = header.apply("webhook-timestamp");
        String signatures = header.apply("webhook-signature");
        if (id == null || time == null || signatures == null) throw invalid("a header of the signature is missing");
        if (!time.matches("\\d{1,12}")) throw invalid("the timestamp is no number");
        if (Math.abs(Instant.now().getEpochSecond() - Long.parseLong(time)) > tolerance) {
            throw invalid("the timestamp is too far from the clock of this machine");
        }
        if (!isSigned((id + "." + time + ".").getBytes(StandardCharsets.UTF_8), body, signatures)) {
            throw invalid("no signature is made with a known secret");
        }
        return new Hook(id, header.apply("delayq-namespace"), header.apply("delayq-task-type"),
                header.apply("delayq-task-id"), (int) number(header.apply("delayq-attempt")),
                number(header.apply("delayq-fence")), Instant.ofEpochMilli(number(header.apply("delayq-due-at"))),
                ofTask, body);
    }

    private boolean isSigned(byte[] head, byte[] body, String signatures) {
        boolean isSigned = false;
        for (byte[] key : keys) {
            byte[] own = ("v1," + Base64.getEncoder().encodeToString(mac(key, head, body))).getBytes(StandardCharsets.UTF_8);
            for (String given : signatures.split(" ")) {
                isSigned |= MessageDigest.isEqual(own, given.getBytes(StandardCharsets.UTF_8));
            }
        }
        return isSigned;
    }

    private static byte[] mac(byte[] key, byte[] head, byte[] body) {
        try {
            Mac mac = Mac.getInstance("HmacSHA256");
            mac.init(new SecretKeySpec(key, "HmacSHA256"));
            mac.update(head);
            return mac.doFinal(body);
        } catch (GeneralSecurityException impossible) {
            throw new IllegalStateException(impossible);
        }
    }

    private static long number(String text) {
        return text == null || !text.matches("\\d{1,18}") ? 0 : Long.parseLong(text);
    }

    private static DelayqException invalid(String detail) {
        return new DelayqException.InvalidSignature(Problem.of("invalid-signature", 401, detail));
    }
}
