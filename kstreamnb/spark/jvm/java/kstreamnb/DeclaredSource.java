package kstreamnb;

import java.util.Collections;
import java.util.Map;
import java.util.WeakHashMap;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.spark.sql.execution.datasources.DataSourceManager$;
import org.apache.spark.sql.execution.datasources.v2.python.PythonDataSourceCreationResult;
import org.apache.spark.sql.execution.datasources.v2.python.PythonDataSourceReadInfo;
import org.apache.spark.sql.types.StructType;
import scala.Some;
import scala.collection.immutable.Map$;
import scala.collection.immutable.Seq;
import scala.collection.immutable.Seq$;

/** The sources of the kit's queries. Spark would start Python processes to create each, and to ask how it is read. */
public final class DeclaredSource {
    private static final Map<String, Source> SOURCES = new ConcurrentHashMap<>();
    private static final Map<Object, byte[]> READERS = Collections.synchronizedMap(new WeakHashMap<>());

    private static volatile boolean asked;

    private DeclaredSource() { }

    private record Source(byte[] pickled, StructType columns, byte[] reader) { }

    /** Notes that Spark asks here. */
    static void ask() {
        asked = true;
    }

    /** Returns whether Spark asks here. */
    public static boolean isAsked() {
        return asked;
    }

    /**
     * Declares the source that Spark creates next under a name.
     *
     * @param reader the pickled function that reads a partition
     * @param alone  Python has no installed sources, for which Spark would look before it creates the first one
     */
    public static void declare(
            final String name, final byte[] pickled, final String columns, final byte[] reader, final boolean alone) {
        if (alone && DataSourceManager$.MODULE$.dataSourceBuilders().isEmpty()) {
            DataSourceManager$.MODULE$.dataSourceBuilders_$eq(new Some<>(Map$.MODULE$.empty()));
        }
        SOURCES.put(name, new Source(pickled, StructType.fromDDL(columns), reader));
    }

    /** Returns the source of a name, once, null if it is not declared. */
    public static PythonDataSourceCreationResult created(final String name) {
        final Source source = SOURCES.remove(name);
        if (source == null) {
            return null;
        }
        final PythonDataSourceCreationResult created = new PythonDataSourceCreationResult(source.pickled, source.columns);
        READERS.put(created, source.reader);
        return created;
    }

    /** Returns how a stream is read, null if it is not declared. Its partitions are planned batch by batch. */
    @SuppressWarnings("unchecked")
    public static PythonDataSourceReadInfo reader(final PythonDataSourceCreationResult source, final boolean streams) {
        final byte[] reader = streams ? READERS.get(source) : null;
        return reader == null ? null : new PythonDataSourceReadInfo(reader, (Seq<byte[]>) Seq$.MODULE$.empty());
    }
}
