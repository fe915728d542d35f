package kstreamnb;

import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.LongAdder;
import org.apache.spark.sql.catalyst.analysis.SimpleAnalyzer$;
import org.apache.spark.sql.catalyst.encoders.ExpressionEncoder;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.types.DataTypeUtils;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import scala.collection.immutable.Seq;

/** Results that are the same in every batch; {@link BatchClasses} has Spark ask here. */
public final class BatchCache {
    /** How often a result was here. */
    public static final LongAdder hits = new LongAdder();

    private static final int MOST = 1000;
    private static final Map<Key, Object> ENCODERS = new ConcurrentHashMap<>();

    private static final int ROWS = 16;
    private static final ThreadLocal<int[]> WRITTEN = ThreadLocal.withInitial(() -> new int[1]);

    private BatchCache() { }

    /** An encoder that is not bound yet, and the columns that it is to be bound to. Both compare by value. */
    private record Key(ExpressionEncoder<?> encoder, StructType columns) { }

    /** Returns the bound encoder, null if it is unknown. */
    public static Object bound(final Object encoder, final Object columns, final Object analyzer) {
        final Key key = key(encoder, columns, analyzer);
        final Object found = key == null ? null : ENCODERS.get(key);
        if (found != null) {
            hits.increment();
        }
        return found;
    }

    /** Keeps a bound encoder. */
    public static void note(final Object bound, final Object encoder, final Object columns, final Object analyzer) {
        final Key key = key(encoder, columns, analyzer);
        if (key != null && ENCODERS.size() < MOST) {
            ENCODERS.put(key, bound);
        }
    }

    /** Returns whether a closure is one of Spark SQL, which never refers to what Spark's cleaner removes. */
    public static boolean isClean(final Object closure) {
        return closure.getClass().getName().startsWith("org.apache.spark.sql.");
    }

    /** Returns whether this thread has written some rows since it last asked for their size, which is slow. */
    public static boolean isSizeDue() {
        return ++WRITTEN.get()[0] % ROWS == 0;
    }

    @SuppressWarnings("unchecked")
    private static Key key(final Object encoder, final Object columns, final Object analyzer) {
        if (analyzer != SimpleAnalyzer$.MODULE$) {
            return null;
        }
        final ExpressionEncoder<?> unbound = (ExpressionEncoder<?>) encoder;
        final StructType types = DataTypeUtils.fromAttributes((Seq<Attribute>) columns);
        return isPlain(unbound.schema()) && isPlain(types) ? new Key(unbound, types) : null;
    }

    /** Only for such types the analyzer does nothing that settings could change, and nothing that keeps a state. */
    private static boolean isPlain(final DataType type) {
        if (type instanceof StructType struct) {
            for (final StructField field : struct.fields()) {
                if (!isPlain(field.dataType())) {
                    return false;
                }
            }
            return true;
        }
        return type.equals(DataTypes.IntegerType) || type.equals(DataTypes.LongType)
            || type.equals(DataTypes.StringType) || type.equals(DataTypes.BinaryType);
    }
}
