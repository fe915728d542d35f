import com.fasterxml.jackson.databind.ObjectMapper;
import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.common.serialization.Deserializer;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.serialization.Serializer;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.TestInputTopic;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.TopologyTestDriver;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.KGroupedStream;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.TimeWindows;
import org.apache.kafka.streams.kstream.WindowedSerdes;
import org.apache.kafka.streams.state.Stores;
import org.apache.kafka.streams.test.TestRecord;

/** Prints the best rate of a case, in records by second of the driving thread's CPU time, and how many came out. */
public final class Peer {
    private static final int RECORDS = 200_000;
    private static final int KEYS = 100;
    private static final long START_MS = 1_700_000_000_000L;
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final Serde<String> KEY = Serdes.String();
    private static final Serde<Map<String, Object>> VALUE = Serdes.serdeFrom(writer(), reader());

    public static void main(String[] args) {
        List<TestRecord<String, Map<String, Object>>> records = records();
        double best = 0;
        int published = 0;
        for (int round = 0; round <= Integer.parseInt(args[1]); round++) {
            try (TopologyTestDriver driver = new TopologyTestDriver(topology(args[0]), settings())) {
                TestInputTopic<String, Map<String, Object>> input =
                    driver.createInputTopic("in", new StringSerializer(), VALUE.serializer());
                ThreadMXBean clock = ManagementFactory.getThreadMXBean();
                long start = clock.getCurrentThreadCpuTime();
                for (TestRecord<String, Map<String, Object>> record : records) {
                    input.pipeInput(record);
                }
                double seconds = (clock.getCurrentThreadCpuTime() - start) / 1e9;
                published = driver.createOutputTopic("out", Serdes.ByteArray().deserializer(),
                    Serdes.ByteArray().deserializer()).readRecordsToList().size();
                if (round > 0) { // the first round warms the machine up
                    best = Math.max(best, RECORDS / seconds);
                }
            }
        }
        System.out.printf("{\"rate\": %d, \"published\": %d}%n", (long) best, published);
    }

    private static Topology topology(String name) {
        StreamsBuilder builder = new StreamsBuilder();
        KStream<String, Map<String, Object>> stream = builder.stream("in", Consumed.with(KEY, VALUE));
        KGroupedStream<String, Map<String, Object>> grouped = stream.groupByKey(Grouped.with(KEY, VALUE));
        switch (name) {
            case "filter and map" -> stream
                .filter((key, value) -> (Integer) value.get("value") % 2 == 0)
                .mapValues(Peer::withDouble)
                .to("out", Produced.with(KEY, VALUE));
            case "keyed count" -> grouped
                .count(Materialized.as(Stores.inMemoryKeyValueStore("counts")))
                .toStream()
                .to("out", Produced.with(KEY, Serdes.Long()));
            case "tumbling count" -> grouped
                .windowedBy(TimeWindows.ofSizeWithNoGrace(Duration.ofSeconds(1)))
                .count(Materialized.as(
                    Stores.inMemoryWindowStore("counts", Duration.ofDays(1), Duration.ofSeconds(1), false)))
                .toStream()
                .to("out", Produced.with(WindowedSerdes.timeWindowedSerdeFrom(String.class, 1000), Serdes.Long()));
            default -> throw new IllegalArgumentException(name);
        }
        return builder.build();
    }

    private static Map<String, Object> withDouble(Map<String, Object> value) {
        Map<String, Object> more = new HashMap<>(value);
        more.put("v2", (Integer) value.get("value") * 2);
        return more;
    }

    private static List<TestRecord<String, Map<String, Object>>> records() {
        List<TestRecord<String, Map<String, Object>>> records = new ArrayList<>(RECORDS);
        for (int n = 0; n < RECORDS; n++) {
            String key = "k" + n % KEYS;
            Map<String, Object> value = Map.of("key", key, "value", n, "ts", START_MS + n);
            records.add(new TestRecord<>(key, value, null, START_MS + n));
        }
        return records;
    }

    private static Properties settings() {
        Properties settings = new Properties();
        settings.put("application.id", "bench");
        settings.put("bootstrap.servers", "nowhere:1");
        return settings;
    }

    private static Serializer<Map<String, Object>> writer() {
        return (topic, value) -> {
            try {
                return JSON.writeValueAsBytes(value);
            } catch (java.io.IOException error) {
                throw new java.io.UncheckedIOException(error);
            }
        };
    }

    @SuppressWarnings("unchecked")
    private static Deserializer<Map<String, Object>> reader() {
        return (topic, bytes) -> {
            try {
                return bytes == null ? null : JSON.readValue(bytes, Map.class);
            } catch (java.io.IOException error) {
                throw new java.io.UncheckedIOException(error);
            }
        };
    }
}
