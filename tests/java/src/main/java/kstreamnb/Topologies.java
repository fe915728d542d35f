package kstreamnb;

import java.time.Duration;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.function.BiConsumer;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.EmitStrategy;
import org.apache.kafka.streams.kstream.GlobalKTable;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.JoinWindows;
import org.apache.kafka.streams.kstream.Joined;
import org.apache.kafka.streams.kstream.KGroupedStream;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.KTable;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.SessionWindows;
import org.apache.kafka.streams.kstream.SlidingWindows;
import org.apache.kafka.streams.kstream.StreamJoined;
import org.apache.kafka.streams.kstream.Suppressed;
import org.apache.kafka.streams.kstream.Suppressed.BufferConfig;
import org.apache.kafka.streams.kstream.TimeWindows;
import org.apache.kafka.streams.kstream.UnlimitedWindows;
import org.apache.kafka.streams.kstream.Windowed;
import org.apache.kafka.streams.processor.api.Processor;
import org.apache.kafka.streams.processor.api.ProcessorContext;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.state.KeyValueBytesStoreSupplier;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.SessionStore;
import org.apache.kafka.streams.state.Stores;
import org.apache.kafka.streams.state.WindowStore;

/** The topologies that run beside those of the same name in tests/java/topologies.py, over topics PREFIX-left, -right and -out. */
final class Topologies {
    static final Map<String, BiConsumer<StreamsBuilder, String>> ALL = new LinkedHashMap<>();

    private static final Duration SIZE = Duration.ofSeconds(10);
    private static final Duration GRACE = Duration.ofSeconds(4);
    private static final JoinWindows NEAR = JoinWindows.ofTimeDifferenceAndGrace(Duration.ofSeconds(3), GRACE);

    private Topologies() { }

    private static KStream<String, String> left(final StreamsBuilder builder, final String prefix) {
        return builder.stream(prefix + "-left");
    }

    private static KStream<String, String> right(final StreamsBuilder builder, final String prefix) {
        return builder.stream(prefix + "-right");
    }

    private static KGroupedStream<String, String> grouped(final StreamsBuilder builder, final String prefix) {
        return left(builder, prefix).groupByKey();
    }

    private static <V> void write(final KTable<Windowed<String>, V> table, final String prefix) {
        table.toStream().map((key, value) -> KeyValue.pair(
            key.key(), key.window().start() + "-" + key.window().end() + "=" + value)).to(prefix + "-out");
    }

    private static <V> void writePlain(final KTable<String, V> table, final String prefix) {
        table.toStream().mapValues(value -> "" + value).to(prefix + "-out");
    }

    private static String both(final String left, final String right) {
        return left + "," + right;
    }

    private static String last(final String before, final String value) {
        final String joined = before + value;
        return joined.length() > 12 ? joined.substring(joined.length() - 12) : joined;
    }

    private static Materialized<String, Long, WindowStore<Bytes, byte[]>> windows(final String name) {
        return Materialized.<String, Long, WindowStore<Bytes, byte[]>>as(name).withKeySerde(Serdes.String());
    }

    static {
        Examples.addTo(ALL);
        ALL.put("count", (b, p) -> writePlain(grouped(b, p).count(Materialized.as("counts")), p));
        ALL.put("reduce-in-memory", (b, p) -> writePlain(
            grouped(b, p).reduce(Topologies::last, Materialized.as(Stores.inMemoryKeyValueStore("texts"))), p));
        ALL.put("tumbling", (b, p) -> write(grouped(b, p)
            .windowedBy(TimeWindows.ofSizeAndGrace(SIZE, GRACE)).count(windows("windows")), p));
        ALL.put("unlimited", (b, p) -> write(grouped(b, p)
            .windowedBy(UnlimitedWindows.of()).count(Materialized.as("windows")), p));
        ALL.put("hopping-in-memory", (b, p) -> write(grouped(b, p)
            .windowedBy(TimeWindows.ofSizeAndGrace(SIZE, GRACE).advanceBy(Duration.ofSeconds(5)))
            .count(Materialized.as(Stores.inMemoryWindowStore("windows", Duration.ofSeconds(14), SIZE, false))), p));
        ALL.put("sliding", (b, p) -> write(grouped(b, p)
            .windowedBy(SlidingWindows.ofTimeDifferenceAndGrace(SIZE, GRACE)).count(windows("windows")), p));
        ALL.put("sessions", (b, p) -> write(grouped(b, p)
            .windowedBy(SessionWindows.ofInactivityGapAndGrace(Duration.ofSeconds(3), GRACE))
            .count(Materialized.<String, Long, SessionStore<Bytes, byte[]>>as("sessions")), p));
        ALL.put("sessions-in-memory", (b, p) -> write(grouped(b, p)
            .windowedBy(SessionWindows.ofInactivityGapAndGrace(Duration.ofSeconds(3), GRACE))
            .count(Materialized.as(Stores.inMemorySessionStore("sessions", Duration.ofSeconds(7)))), p));
        ALL.put("suppress-windows", (b, p) -> write(grouped(b, p)
            .windowedBy(TimeWindows.ofSizeAndGrace(SIZE, GRACE)).count(windows("windows"))
            .suppress(Suppressed.untilWindowCloses(BufferConfig.unbounded()).withName("closed")), p));
        ALL.put("suppress-table", (b, p) -> writePlain(grouped(b, p).count(Materialized.as("counts"))
            .suppress(Suppressed.<String>untilTimeLimit(GRACE, BufferConfig.unbounded()).withName("calm")), p));
        ALL.put("emit-on-close", (b, p) -> write(grouped(b, p)
            .windowedBy(TimeWindows.ofSizeAndGrace(SIZE, GRACE)).emitStrategy(EmitStrategy.onWindowClose())
            .count(windows("windows")), p));
        ALL.put("cogroup", (b, p) -> writePlain(grouped(b, p)
            .<String>cogroup((key, value, before) -> last(before, value))
            .cogroup(right(b, p).groupByKey(), (key, value, before) -> last(before, value.toUpperCase()))
            .aggregate(() -> "", Materialized.as("texts")), p));
        ALL.put("stream-join", (b, p) -> left(b, p).join(right(b, p), Topologies::both, NEAR, stores()).to(p + "-out"));
        ALL.put("stream-left-join", (b, p) ->
            left(b, p).leftJoin(right(b, p), Topologies::both, NEAR, stores()).to(p + "-out"));
        ALL.put("stream-outer-join", (b, p) ->
            left(b, p).outerJoin(right(b, p), Topologies::both, NEAR, stores()).to(p + "-out"));
        ALL.put("stream-left-join-in-memory", (b, p) -> left(b, p).leftJoin(right(b, p), Topologies::both, NEAR,
            stores()
                .withThisStoreSupplier(Stores.inMemoryWindowStore("near-a", Duration.ofSeconds(10), Duration.ofSeconds(6), true))
                .withOtherStoreSupplier(Stores.inMemoryWindowStore("near-b", Duration.ofSeconds(10), Duration.ofSeconds(6), true)))
            .to(p + "-out"));
        ALL.put("stream-table-join", (b, p) -> {
            final KTable<String, String> table = b.table(p + "-right", Materialized.as("table"));
            left(b, p).leftJoin(table, Topologies::both).to(p + "-out");
        });
        ALL.put("table-outer-join", (b, p) -> {
            final KTable<String, String> one = b.table(p + "-left", Materialized.as("one"));
            final KTable<String, String> other = b.table(p + "-right", Materialized.as("other"));
            writePlain(one.outerJoin(other, Topologies::both, Materialized.as("both")), p);
        });
        ALL.put("global-join", (b, p) -> {
            final GlobalKTable<String, String> table = b.globalTable(p + "-right", Materialized.as("everywhere"));
            left(b, p).leftJoin(table, (key, value) -> key, Topologies::both).to(p + "-out");
        });
        ALL.put("versioned-join", (b, p) -> {
            final KTable<String, String> table = b.table(
                p + "-right", Materialized.as(Stores.persistentVersionedKeyValueStore("prices", Duration.ofMinutes(1))));
            left(b, p).join(table, Topologies::both,
                Joined.with(Serdes.String(), Serdes.String(), Serdes.String(), "priced", GRACE)).to(p + "-out");
        });
        ALL.put("table-group", (b, p) -> {
            final KTable<String, String> table = b.table(p + "-left", Materialized.as("table"));
            writePlain(table.groupBy((key, value) -> KeyValue.pair("g" + key.charAt(1), value), Grouped.as("by-letter"))
                .aggregate(() -> 0L, (key, value, sum) -> sum + value.length(), (key, value, sum) -> sum - value.length(),
                    Materialized.<String, Long, KeyValueStore<Bytes, byte[]>>as("sums").withValueSerde(Serdes.Long())), p);
        });
        ALL.put("foreign-key-join", (b, p) -> {
            final KTable<String, String> one = b.table(p + "-left", Materialized.as("one"));
            final KTable<String, String> other = b.table(p + "-right", Materialized.as("other"));
            writePlain(one.leftJoin(other, value -> "k" + value.charAt(1), Topologies::both,
                org.apache.kafka.streams.kstream.TableJoined.as("owner"), Materialized.as("both")), p);
        });
        ALL.put("regroup", (b, p) -> writePlain(left(b, p)
            .groupBy((key, value) -> "g" + value.charAt(1), Grouped.as("by-letter")).count(Materialized.as("counts")), p));
        ALL.put("regroup-windows", (b, p) -> write(left(b, p)
            .groupBy((key, value) -> "g" + value.charAt(1), Grouped.as("by-letter"))
            .windowedBy(TimeWindows.ofSizeAndGrace(SIZE, GRACE)).count(windows("windows")), p));
        ALL.put("json-totals", (b, p) -> b.stream(p + "-left", Consumed.with(Serdes.String(), Json.SERDE)).groupByKey()
            .aggregate(() -> row(0, 0), (key, value, row) -> row((int) row.get("count") + 1,
                    (int) row.get("total") + (int) value.get("amount")),
                Materialized.<String, Map<String, Object>, KeyValueStore<Bytes, byte[]>>as("totals").withValueSerde(Json.SERDE))
            .toStream().to(p + "-out", Produced.with(Serdes.String(), Json.SERDE)));
        ALL.put("processor", (b, p) -> numbered(b, p, Stores.persistentKeyValueStore("seen")));
        ALL.put("processor-in-memory", (b, p) -> numbered(b, p, Stores.inMemoryKeyValueStore("seen")));
    }

    private static void numbered(final StreamsBuilder builder, final String prefix, final KeyValueBytesStoreSupplier store) {
        builder.addStateStore(Stores.keyValueStoreBuilder(store, Serdes.String(), Serdes.Long()));
        left(builder, prefix).process(Numbering::new, "seen").to(prefix + "-out");
    }

    private static Map<String, Object> row(final int count, final int total) {
        final Map<String, Object> row = new LinkedHashMap<>();
        row.put("count", count);
        row.put("total", total);
        return row;
    }

    private static StreamJoined<String, String, String> stores() {
        return StreamJoined.with(Serdes.String(), Serdes.String(), Serdes.String()).withName("near").withStoreName("near");
    }

    /** Numbers the records of a key; the ninth begins anew with the next one. */
    private static final class Numbering implements Processor<String, String, String, String> {
        private KeyValueStore<String, Long> seen;
        private ProcessorContext<String, String> context;

        @Override
        public void init(final ProcessorContext<String, String> given) {
            context = given;
            seen = context.getStateStore("seen");
        }

        @Override
        public void process(final Record<String, String> record) {
            final Long before = seen.get(record.key());
            final long number = before == null ? 1 : before + 1;
            seen.put(record.key(), number == 9 ? null : (Long) number);
            context.forward(record.withValue(record.value() + "#" + number));
        }
    }
}
