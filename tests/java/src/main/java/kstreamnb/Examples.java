package kstreamnb;

import java.time.Duration;
import java.util.Arrays;
import java.util.Comparator;
import java.util.HashMap;
import java.util.Locale;
import java.util.Map;
import java.util.function.BiConsumer;
import java.util.stream.Collectors;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.JoinWindows;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.KTable;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.Repartitioned;
import org.apache.kafka.streams.kstream.SessionWindows;
import org.apache.kafka.streams.kstream.StreamJoined;
import org.apache.kafka.streams.kstream.TimeWindows;
import org.apache.kafka.streams.kstream.WindowedSerdes;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.SessionStore;

/** Kafka's own examples, as those of the same name in tests/java/examples.py. */
final class Examples {
    private Examples() { }

    static void addTo(final Map<String, BiConsumer<StreamsBuilder, String>> all) {
        all.put("word-count", (b, p) -> {
            final KStream<String, String> lines = b.stream(p + "-left");
            lines.flatMapValues(line -> Arrays.asList(line.toLowerCase(Locale.ROOT).split(" ")))
                .groupBy((key, word) -> word).count(Materialized.as("counts-store"))
                .toStream().to(p + "-out", Produced.with(Serdes.String(), Serdes.Long()));
        });
        all.put("page-view", (b, p) -> {
            final KTable<String, String> regions = b.table(p + "-right", Materialized.as("regions"));
            final KStream<String, String> pages = b.stream(p + "-left");
            pages.leftJoin(regions, (page, region) -> (region == null ? "UNKNOWN" : region) + "," + page)
                .map((user, view) -> KeyValue.pair(view.split(",")[0], view))
                .groupByKey(Grouped.as("by-region"))
                .windowedBy(TimeWindows.ofSizeWithNoGrace(Duration.ofSeconds(10)).advanceBy(Duration.ofSeconds(5)))
                .count(Materialized.as("views"))
                .toStream().map((key, count) -> KeyValue.pair(
                    key.key(), key.window().start() + "-" + key.window().end() + "=" + count))
                .to(p + "-out");
        });
        all.put("temperature", (b, p) -> {
            final KStream<String, String> values = b.stream(p + "-left");
            values.selectKey((key, value) -> "temp").groupByKey()
                .windowedBy(TimeWindows.ofSizeWithNoGrace(Duration.ofSeconds(5)))
                .reduce((one, other) -> Integer.parseInt(one) > Integer.parseInt(other) ? one : other)
                .toStream().filter((key, value) -> Integer.parseInt(value) > 20)
                .to(p + "-out", Produced.with(WindowedSerdes.timeWindowedSerdeFrom(String.class, 5000L), Serdes.String()));
        });
        all.put("music", Examples::music);
        all.put("orders", (b, p) -> {
            final KStream<String, String> checks = b.stream(p + "-right");
            final KStream<String, String> orders = b.stream(p + "-left");
            checks.groupByKey().windowedBy(SessionWindows.ofInactivityGapWithNoGrace(Duration.ofMinutes(5)))
                .aggregate(() -> 0L, (order, check, total) -> check.endsWith("PASS") ? total + 1 : total,
                    (order, one, other) -> one + other,
                    Materialized.<String, Long, SessionStore<Bytes, byte[]>>as("passed").withValueSerde(Serdes.Long()))
                .toStream((window, total) -> window.key()).filter((order, total) -> total != null && total >= 2)
                .join(orders, (total, order) -> order.replace("CREATED", "VALIDATED"),
                    JoinWindows.ofTimeDifferenceWithNoGrace(Duration.ofMinutes(5)),
                    StreamJoined.with(Serdes.String(), Serdes.Long(), Serdes.String()).withName("order").withStoreName("order"))
                .to(p + "-out", Produced.with(Serdes.String(), Serdes.String()));
        });
    }

    private static void music(final StreamsBuilder b, final String p) {
        final KTable<String, String> songs = b.table(p + "-right", Materialized.as("all-songs"));
        final KStream<String, String> plays = b.stream(p + "-left");
        final KTable<String, Long> counts = plays
            .filter((user, play) -> Integer.parseInt(play.split(",")[1]) >= 30)
            .map((user, play) -> KeyValue.pair(play.split(",")[0], play))
            .repartition(Repartitioned.as("plays-by-song"))
            .leftJoin(songs, (play, genre) -> genre)
            .groupBy((song, genre) -> song + "," + genre, Grouped.as("by-song"))
            .count(Materialized.as("song-play-count"));
        counts.groupBy((song, count) -> KeyValue.pair(song.split(",")[1], song.split(",")[0] + ":" + count),
                Grouped.with(Serdes.String(), Serdes.String()))
            .aggregate(() -> "",
                (genre, row, chart) -> chart(chart, row.split(":")[0], row.split(":")[1]),
                (genre, row, chart) -> chart(chart, row.split(":")[0], null),
                Materialized.<String, String, KeyValueStore<Bytes, byte[]>>as("top-five-songs-by-genre"))
            .toStream().to(p + "-out");
    }

    private static String chart(final String text, final String song, final String plays) {
        final Map<String, Integer> counts = new HashMap<>();
        for (final String row : text.isEmpty() ? new String[0] : text.split(";")) {
            counts.put(row.split(":")[0], Integer.parseInt(row.split(":")[1]));
        }
        counts.remove(song);
        if (plays != null) {
            counts.put(song, Integer.parseInt(plays));
        }
        return counts.entrySet().stream()
            .sorted(Comparator.<Map.Entry<String, Integer>>comparingInt(Map.Entry::getValue).reversed()
                .thenComparing(Map.Entry::getKey))
            .limit(5).map(row -> row.getKey() + ":" + row.getValue()).collect(Collectors.joining(";"));
    }
}
