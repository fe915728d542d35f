package kstreamnb;

import org.apache.spark.sql.api.java.UDF2;

/** The partition of a key's bytes among some, as Kafka's producers choose it; a null key has partition 0. */
public final class KeyPartition implements UDF2<byte[], Integer, Integer> {
    private static final long serialVersionUID = 1L;
    private static final int FACTOR = 0x5bd1e995;

    @Override
    public Integer call(final byte[] key, final Integer partitions) {
        return key == null ? 0 : (murmur2(key) & 0x7fffffff) % partitions;
    }

    private static int murmur2(final byte[] data) {
        final int whole = data.length & ~3;
        int hash = 0x9747b28c ^ data.length;
        for (int at = 0; at < whole; at += 4) {
            int word = little(data, at, 4) * FACTOR;
            word = (word ^ word >>> 24) * FACTOR;
            hash = hash * FACTOR ^ word;
        }
        if (whole < data.length) {
            hash = (hash ^ little(data, whole, data.length - whole)) * FACTOR;
        }
        hash = (hash ^ hash >>> 13) * FACTOR;
        return hash ^ hash >>> 15;
    }

    private static int little(final byte[] data, final int from, final int count) {
        int number = 0;
        for (int at = from + count - 1; at >= from; at--) {
            number = number << 8 | data[at] & 0xff;
        }
        return number;
    }
}
