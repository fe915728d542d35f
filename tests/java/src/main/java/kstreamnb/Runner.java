package kstreamnb;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Arrays;
import java.util.HashMap;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import java.util.concurrent.atomic.AtomicLong;
import java.util.stream.Collectors;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.CloseOptions;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.LagInfo;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StoreQueryParameters;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.processor.StateRestoreListener;
import org.apache.kafka.streams.state.KeyValueIterator;
import org.apache.kafka.streams.state.QueryableStoreTypes;
import org.apache.kafka.streams.state.ReadOnlyKeyValueStore;
import org.apache.kafka.streams.state.RocksDBConfigSetter;
import org.rocksdb.Options;

/**
 * Runs topologies with the real runtime, as told by lines on standard input: "start ID TOPOLOGY PREFIX [NAME=VALUE…]",
 * "stop ID", "close ID", "restored ID", "rows ID STORE", "describe TOPOLOGY PREFIX". Each is answered by one line: "ok"
 * or the answer, or "failed" and the reason.
 */
public final class Runner {
    private final String servers;
    private final String folder;
    private final Map<String, KafkaStreams> running = new HashMap<>();
    private final Map<String, Throwable> failures = new HashMap<>();
    private final Map<String, AtomicLong> restored = new HashMap<>();

    private Runner(final String servers, final String folder) {
        this.servers = servers;
        this.folder = folder;
    }

    public static void main(final String[] args) throws Exception {
        final Runner runner = new Runner(args[0], args[1]);
        final BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line; (line = in.readLine()) != null; ) {
            System.out.println(runner.answer(line.trim().split(" ")));
            System.out.flush();
        }
        runner.running.values().forEach(streams -> streams.close(Duration.ofSeconds(5)));
    }

    private String answer(final String[] words) {
        try {
            switch (words[0]) {
                case "start": start(words[1], words[2], words[3], Arrays.copyOfRange(words, 4, words.length)); return "ok";
                case "stop": stop(words[1]); return "ok";
                case "close": close(words[1]); return "ok";
                case "restored": return restored(words[1]);
                case "check": check(words[1]); return "ok";
                case "rows": return rows(words[1], words[2]);
                case "describe": return topology(words[1], words[2]).describe().toString().replace("\n", "\\n");
                default: return "failed: unknown command " + words[0];
            }
        } catch (final Throwable error) {
            return "failed: " + error;
        }
    }

    private static Topology topology(final String name, final String prefix) {
        final StreamsBuilder builder = new StreamsBuilder();
        Topologies.ALL.get(name).accept(builder, prefix);
        return builder.build();
    }

    private void start(final String id, final String name, final String prefix, final String... more) {
        final Properties settings = settings(id);
        for (final String setting : more) {
            settings.put(setting.split("=", 2)[0], setting.split("=", 2)[1]);
        }
        final KafkaStreams streams = new KafkaStreams(topology(name, prefix), settings);
        streams.setUncaughtExceptionHandler(error -> {
            failures.put(id, error);
            return StreamThreadExceptionResponse.SHUTDOWN_CLIENT;
        });
        final AtomicLong records = new AtomicLong();
        streams.setGlobalStateRestoreListener(new StateRestoreListener() {
            @Override
            public void onRestoreStart(final TopicPartition changelog, final String store, final long from, final long to) { }

            @Override
            public void onBatchRestored(final TopicPartition changelog, final String store, final long at, final long size) { }

            @Override
            public void onRestoreEnd(final TopicPartition changelog, final String store, final long total) {
                records.addAndGet(total);
            }
        });
        restored.put(id, records);
        running.put(id, streams);
        streams.start();
    }

    /** An interactive query: all rows of a key-value store in the order of their keys. */
    private String rows(final String id, final String store) {
        final ReadOnlyKeyValueStore<String, Object> view = running.get(id).store(
            StoreQueryParameters.fromNameAndType(store, QueryableStoreTypes.keyValueStore()));
        final TreeMap<String, Object> found = new TreeMap<>();
        try (KeyValueIterator<String, Object> rows = view.all()) {
            rows.forEachRemaining(row -> found.put(row.key, row.value));
        }
        return found.entrySet().stream().map(row -> row.getKey() + "=" + row.getValue()).collect(Collectors.joining(" "));
    }

    private void check(final String id) throws Throwable {
        if (failures.containsKey(id)) {
            throw failures.get(id);
        }
    }

    /** State, number of records restored since the start, and number of records that local stores lack. */
    private String restored(final String id) throws Throwable {
        check(id);
        final KafkaStreams streams = running.get(id);
        final long lag = streams.allLocalStorePartitionLags().values().stream()
            .flatMap(partitions -> partitions.values().stream()).mapToLong(LagInfo::offsetLag).sum();
        return streams.state() + " " + restored.get(id) + " " + lag;
    }

    /** Leaves the group at once, and forgets the local state, so that the next start restores it from changelogs. */
    private void stop(final String id) throws Throwable {
        close(id).cleanUp();
        check(id);
    }

    /** Leaves the group at once, and keeps the local state. */
    private KafkaStreams close(final String id) {
        final KafkaStreams streams = running.remove(id);
        final CloseOptions leave = CloseOptions.groupMembershipOperation(CloseOptions.GroupMembershipOperation.LEAVE_GROUP);
        streams.close(leave.withTimeout(Duration.ofSeconds(30)));
        return streams;
    }

    /** So little memory for writes that RocksDB writes to the disk while an application runs. */
    public static final class LittleMemory implements RocksDBConfigSetter {
        @Override
        public void setConfig(final String store, final Options options, final Map<String, Object> settings) {
            options.setWriteBufferSize(65_536);
        }

        @Override
        public void close(final String store, final Options options) { }
    }

    private Properties settings(final String id) {
        final Properties settings = new Properties();
        settings.put(StreamsConfig.APPLICATION_ID_CONFIG, id);
        settings.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, servers);
        settings.put(StreamsConfig.STATE_DIR_CONFIG, folder);
        settings.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, StreamsConfig.EXACTLY_ONCE_V2);
        settings.put(StreamsConfig.STATESTORE_CACHE_MAX_BYTES_CONFIG, 0);
        settings.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, 100);
        settings.put(StreamsConfig.NUM_STREAM_THREADS_CONFIG, Integer.getInteger("threads", 1));
        settings.put(StreamsConfig.REPLICATION_FACTOR_CONFIG, 1);
        settings.put(StreamsConfig.REPARTITION_PURGE_INTERVAL_MS_CONFIG, Long.MAX_VALUE);
        settings.put(StreamsConfig.DEFAULT_KEY_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        settings.put(StreamsConfig.DEFAULT_VALUE_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        settings.put(StreamsConfig.consumerPrefix("auto.offset.reset"), "earliest");
        // Kafka Streams looks for closed windows, and for records of joins that found no partner in time, once a second
        // of the wall clock; its test driver after each record.
        settings.put(StreamsConfig.InternalConfig.EMIT_INTERVAL_MS_KSTREAMS_OUTER_JOIN_SPURIOUS_RESULTS_FIX, 0L);
        settings.put(StreamsConfig.InternalConfig.EMIT_INTERVAL_MS_KSTREAMS_WINDOWED_AGGREGATION, 0L);
        return settings;
    }
}
