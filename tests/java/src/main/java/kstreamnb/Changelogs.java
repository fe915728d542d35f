package kstreamnb;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.time.Instant;
import java.util.HexFormat;
import java.util.Properties;
import java.util.TreeSet;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.serialization.StringSerializer;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.TopologyTestDriver;
import org.apache.kafka.streams.test.TestRecord;

/**
 * Prints what Kafka Streams writes to changelogs: for lines "topic key value time" on standard input, lines
 * "topic time key value headers" with bytes in hexadecimal, "-" for null.
 */
public final class Changelogs {
    private Changelogs() { }

    public static void main(final String[] args) throws Exception {
        final StreamsBuilder builder = new StreamsBuilder();
        Topologies.ALL.get(args[0]).accept(builder, "p");
        final Properties settings = new Properties();
        settings.put(StreamsConfig.APPLICATION_ID_CONFIG, "app");
        settings.put(StreamsConfig.STATE_DIR_CONFIG, args[1]);
        settings.put(StreamsConfig.STATESTORE_CACHE_MAX_BYTES_CONFIG, 0);
        settings.put(StreamsConfig.DEFAULT_KEY_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        settings.put(StreamsConfig.DEFAULT_VALUE_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        final BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        try (TopologyTestDriver driver = new TopologyTestDriver(builder.build(), settings)) {
            for (String line; (line = in.readLine()) != null; ) {
                final String[] words = line.split(" ");
                final String value = words[2].equals("-") ? null : words[2];
                driver.createInputTopic(words[0], new StringSerializer(), new StringSerializer())
                    .pipeInput(words[1], value, Instant.ofEpochMilli(Long.parseLong(words[3])));
            }
            for (final String topic : new TreeSet<>(driver.producedTopicNames())) {
                if (topic.endsWith("-changelog")) {
                    final var log = driver.createOutputTopic(topic, new ByteArrayDeserializer(), new ByteArrayDeserializer());
                    log.readRecordsToList().forEach(record -> print(topic, record));
                }
            }
        }
    }

    private static void print(final String topic, final TestRecord<byte[], byte[]> record) {
        final StringBuilder headers = new StringBuilder();
        for (final Header header : record.headers()) {
            headers.append(header.key()).append('=').append(hex(header.value()));
        }
        System.out.println(String.join(" ", topic, String.valueOf(record.timestamp()), hex(record.key()), hex(record.value()),
            headers.length() == 0 ? "-" : headers));
    }

    private static String hex(final byte[] data) {
        return data == null ? "-" : data.length == 0 ? "empty" : HexFormat.of().formatHex(data);
    }
}
