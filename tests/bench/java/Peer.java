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
import org.apache.kafka.streams.kstream.JoinWindows;
import org.apache.kafka.streams.kstream.KGroupedStream;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.SessionWindows;
import org.apache.kafka.streams.kstream.SlidingWindows;
import org.apache.kafka.streams.kstream.StreamJoined;
import org.apache.kafka.streams.kstream.Suppressed;
import org.apache.kafka.streams.kstream.TimeWindows;
import org.apache.kafka.streams.kstream.WindowedSerdes;
import org.apache.kafka.streams.state.BuiltInDslStoreSuppliers;
import org.apache.kafka.streams.state.Stores;
import org.apache.kafka.streams.test.TestRecord;

/** Prints the best rate of a case, in records by second of the driving thread's CPU time, and how many came out. */
public final class Peer {
    private static final int RECORDS = 200_000;
    private static final int FEWER = 20_000; // for cases that take this driver more than a quarter of an hour otherwise
    private static final int KEYS = 100;
    private static final long START_MS = 1_700_000_000_000L;
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final Serde<String> KEY = Serdes.String();
    private static final Serde<Map<String, Object>> VALUE = Serdes.serdeFrom(writer(), reader());

    public static void main(String[] args) {
        int count = args[0].equals("sliding count") ? FEWER : RECORDS;
        List<TestRecord<String, Map<String, Object>>> records = records(args[0], count);
        boolean joins = args[0].endsWith("join");
        int every = args[0].startsWith("foreign-key") ? 10 : 2; // one record of as many goes to the other topic
        double best = 0;
        int published = 0;
        for (int round = 0; round <= Integer.parseInt(args[1]); round++) {
            try (TopologyTestDriver driver = new TopologyTestDriver(topology(args[0]), settings())) {
                TestInputTopic<String, Map<String, Object>> input =
                    driver.createInputTopic("in", new StringSerializer(), VALUE.serializer());
                TestInputTopic<String, Map<String, Object>> other =
                    joins ? driver.createInputTopic("other", new StringSerializer(), VALUE.serializer()) : null;
                ThreadMXBean clock = ManagementFactory.getThreadMXBean();
                long start = clock.getCurrentThreadCpuTime();
                for (int n = 0; n < count; n++) {
                    (joins && n % every == every - 1 ? other : input).pipeInput(records.get(n));
                }
                double seconds = (clock.getCurrentThreadCpuTime() - start) / 1e9;
                published = driver.createOutputTopic("out", Serdes.ByteArray().deserializer(),
                    Serdes.ByteArray().deserializer()).readRecordsToList().size();
                if (round > 0) { // the first round warms the machine up
                    best = Math.max(best, count / seconds);
                }
            }
        }
        System.out.printf("{\"rate\": %d, \"published\": %d}%n", (long) best, published);
    }

    private static Topology topology(String name) {
        StreamsBuilder builder = new StreamsBuilder();
        if (name.equals("foreign-key join")) {
            builder.table("in", Consumed.with(KEY, VALUE))
                .join(builder.table("other", Consumed.with(KEY, VALUE)), value -> "f" + (Integer) value.get("value") % 10,
                    Peer::withOther, Materialized.with(KEY, VALUE))
                .toStream()
                .to("out", Produced.with(KEY, VALUE));
            return builder.build();
        }
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
            case "session count" -> grouped
                .windowedBy(SessionWindows.ofInactivityGapWithNoGrace(Duration.ofMillis(150)))
                .count()
                .toStream()
                .to("out", Produced.with(WindowedSerdes.sessionWindowedSerdeFrom(String.class), Serdes.Long()));
            case "sliding count" -> grouped
                .windowedBy(SlidingWindows.ofTimeDifferenceWithNoGrace(Duration.ofMillis(200)))
                .count()
                .toStream()
                .to("out", Produced.with(WindowedSerdes.timeWindowedSerdeFrom(String.class, 200), Serdes.Long()));
            case "suppressed count" -> grouped
                .windowedBy(TimeWindows.ofSizeWithNoGrace(Duration.ofSeconds(1)))
                .count()
                .suppress(Suppressed.untilWindowCloses(Suppressed.BufferConfig.unbounded()))
                .toStream()
                .to("out", Produced.with(WindowedSerdes.timeWindowedSerdeFrom(String.class, 1000), Serdes.Long()));
            case "stream-stream join" -> stream
                .join(builder.stream("other", Consumed.with(KEY, VALUE)), Peer::withOther,
                    JoinWindows.ofTimeDifferenceWithNoGrace(Duration.ofMillis(100)), StreamJoined.with(KEY, VALUE, VALUE))
                .to("out", Produced.with(KEY, VALUE));
            default -> throw new IllegalArgumentException(name);
        }
        return builder.build();
    }

    private static Map<String, Object> withDouble(Map<String, Object> value) {
        Map<String, Object> more = new HashMap<>(value);
        more.put("v2", (Integer) value.get("value") * 2);
        return more;
    }

    private static Map<String, Object> withOther(Map<String, Object> value, Map<String, Object> other) {
        Map<String, Object> more = new HashMap<>(value);
        more.put("other", other.get("value"));
        return more;
    }

    private static List<TestRecord<String, Map<String, Object>>> records(String name, int count) {
        List<TestRecord<String, Map<String, Object>>> records = new ArrayList<>(count);
        for (int n = 0; n < count; n++) {
            String key = "k" + (name.startsWith("stream-stream") ? n / 2 : n) % KEYS;
            if (name.startsWith("foreign-key") && n % 10 == 9) {
                key = "f" + n / 10 % 10;
            }
            long time = START_MS + n + (name.startsWith("session") ? n / 2000 * 1000 : 0); // pauses end sessions
            Map<String, Object> value = Map.of("key", key, "value", n, "ts", time);
            records.add(new TestRecord<>(key, value, null, time));
        }
        return records;
    }

    private static Properties settings() {
        Properties settings = new Properties();
        settings.put("application.id", "bench");
        settings.put("bootstrap.servers", "nowhere:1");
        settings.put("dsl.store.suppliers.class", BuiltInDslStoreSuppliers.InMemoryDslStoreSuppliers.class.getName());
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
