package dev.delayq;

import com.fasterxml.jackson.annotation.JsonInclude;
import com.fasterxml.jackson.core.JacksonException;
import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.DeserializationContext;
import com.fasterxml.jackson.databind.DeserializationFeature;
import com.fasterxml.jackson.databind.JavaType;
import com.fasterxml.jackson.databind.MapperFeature;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.PropertyNamingStrategies;
import com.fasterxml.jackson.databind.SerializationFeature;
import com.fasterxml.jackson.databind.cfg.CoercionAction;
import com.fasterxml.jackson.databind.cfg.CoercionInputShape;
import com.fasterxml.jackson.databind.deser.std.StdDeserializer;
import com.fasterxml.jackson.databind.json.JsonMapper;
import com.fasterxml.jackson.databind.module.SimpleModule;
import com.fasterxml.jackson.databind.type.LogicalType;
import java.io.IOException;
import java.net.URLEncoder;
import java.nio.charset.StandardCharsets;
import java.security.SecureRandom;
import java.time.Instant;
import java.util.HexFormat;

/** JSON, and the text of paths. */
final class Json {
    private static final SecureRandom RANDOM = new SecureRandom();

    /** For messages and replies: unknown fields are ignored, wrong types and missing numbers are not. */
    static final ObjectMapper MESSAGES = JsonMapper.builder()
            .findAndAddModules()
            .disable(DeserializationFeature.FAIL_ON_UNKNOWN_PROPERTIES, DeserializationFeature.ACCEPT_FLOAT_AS_INT)
            .enable(DeserializationFeature.FAIL_ON_NULL_FOR_PRIMITIVES, DeserializationFeature.FAIL_ON_TRAILING_TOKENS)
            .disable(MapperFeature.ALLOW_COERCION_OF_SCALARS)
            .withCoercionConfig(LogicalType.Textual, texts -> texts
                    .setCoercion(CoercionInputShape.Integer, CoercionAction.Fail)
                    .setCoercion(CoercionInputShape.Float, CoercionAction.Fail)
                    .setCoercion(CoercionInputShape.Boolean, CoercionAction.Fail))
            .disable(SerializationFeature.WRITE_DATES_AS_TIMESTAMPS)
            .build();

    /** For the forms and answers of the server. */
    static final ObjectMapper API = JsonMapper.builder()
            .propertyNamingStrategy(PropertyNamingStrategies.SNAKE_CASE)
            .disable(DeserializationFeature.FAIL_ON_UNKNOWN_PROPERTIES)
            .serializationInclusion(JsonInclude.Include.NON_NULL)
            .addModule(new SimpleModule().addDeserializer(Instant.class, new Millis()))
            .build();

    private Json() {}

    /** A time in milliseconds since the epoch. */
    private static final class Millis extends StdDeserializer<Instant> {
        Millis() {
            super(Instant.class);
        }

        @Override
        public Instant deserialize(JsonParser parser, DeserializationContext context) throws IOException {
            return Instant.ofEpochMilli(parser.getLongValue());
        }
    }

    /** JSON in one line, as {@code /bulk} takes it. */
    static byte[] write(ObjectMapper mapper, Object value) {
        try {
            return mapper.writer().without(SerializationFeature.INDENT_OUTPUT).writeValueAsBytes(value);
        } catch (JsonProcessingException error) {
            throw DelayqException.invalid("the message cannot be written as JSON: " + error.getOriginalMessage(), error);
        }
    }

    @SuppressWarnings("unchecked")
    static <T> T read(ObjectMapper mapper, byte[] bytes, JavaType type) {
        if (bytes == null || type.hasRawClass(byte[].class)) return (T) bytes;
        try {
            return mapper.readValue(bytes, type);
        } catch (IOException error) {
            String why = error instanceof JacksonException bad ? bad.getOriginalMessage() : error.toString();
            throw DelayqException.invalid("not to be read as " + type.toCanonical() + ": " + why, error);
        }
    }

    static <T> T read(byte[] bytes, Class<T> type) {
        return read(API, bytes, API.constructType(type));
    }

    /** A part of a path. Clients take "." and ".." for steps in a path, so these are encoded, too. */
    static String part(String text) {
        if (text == null || text.isEmpty()) throw DelayqException.invalid("a type, an id or a name is empty", null);
        if (text.equals(".") || text.equals("..")) return text.replace(".", "%2E");
        return URLEncoder.encode(text, StandardCharsets.UTF_8).replace("+", "%20");
    }

    static String randomId() {
        byte[] bits = new byte[16];
        RANDOM.nextBytes(bits);
        return HexFormat.of().formatHex(bits);
    }
}
