package kstreamnb;

import com.fasterxml.jackson.core.type.TypeReference;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.Map;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;

/** JSON objects as maps that keep the order of their names, as the kit's JSON serde does. */
final class Json {
    static final Serde<Map<String, Object>> SERDE = Serdes.serdeFrom((topic, value) -> write(value), (topic, bytes) -> read(bytes));

    private static final ObjectMapper MAPPER = new ObjectMapper();
    private static final TypeReference<Map<String, Object>> MAP = new TypeReference<>() { };

    private Json() { }

    private static byte[] write(final Map<String, Object> value) {
        try {
            return value == null ? null : MAPPER.writeValueAsBytes(value);
        } catch (final IOException error) {
            throw new UncheckedIOException(error);
        }
    }

    private static Map<String, Object> read(final byte[] bytes) {
        try {
            return bytes == null ? null : MAPPER.readValue(bytes, MAP);
        } catch (final IOException error) {
            throw new UncheckedIOException(error);
        }
    }
}
