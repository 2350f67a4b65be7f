package dev.delayq;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;

class WebhookTest {
    /** The example of Standard Webhooks. */
    private static final String SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    private static final byte[] BODY = "{\"test\": 2432232314}".getBytes(StandardCharsets.UTF_8);
    private final Map<String, Object> headers = new HashMap<>(Map.of(
            "Webhook-Id", "msg_p5jXN8AQM9LWM0D4loKWxJek",
            "Webhook-Timestamp", List.of("1614265330"),
            "Webhook-Signature", "v1,AAAA v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
            "Delayq-Task-Type", "order.cancel", "Delayq-Task-Id", "order-42", "Delayq-Header-Shop", "berlin"));
    private final Duration always = Duration.ofDays(36_500);

    @Test
    void aKnownSignatureIsTaken() {
        Webhook.Hook push = new Webhook(always, "whsec_AAAA", SECRET).verify(headers, BODY);
        assertEquals("order-42", push.id());
        assertEquals("berlin", push.headers().get("shop"));
        assertEquals(2432232314L, push.json(Map.class).get("test"));
    }

    @Test
    void anythingElseIsRefused() {
        refused(new Webhook(SECRET), BODY);
        refused(new Webhook(always, "whsec_AAAA"), BODY);
        refused(new Webhook(always, SECRET), new byte[0]);
        headers.put("Webhook-Id", "msg_other");
        refused(new Webhook(always, SECRET), BODY);
        headers.remove("Webhook-Id");
        refused(new Webhook(always, SECRET), BODY);
        assertThrows(DelayqException.InvalidInput.class, Webhook::new);
        assertThrows(DelayqException.InvalidInput.class, () -> new Webhook("whsec_*"));
    }

    private void refused(Webhook webhook, byte[] body) {
        var error = assertThrows(DelayqException.class, () -> webhook.verify(headers, body));
        assertEquals("invalid-signature", error.kind());
    }
}
