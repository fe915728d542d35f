package kstreamnb;

import java.util.Map;
import org.apache.spark.api.python.PythonFunction;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.streaming.StreamingRelationV2;
import org.apache.spark.sql.catalyst.streaming.StreamingRelationV2$;
import org.apache.spark.sql.catalyst.types.DataTypeUtils;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.execution.datasources.v2.python.PythonDataSourceCreationResult;
import org.apache.spark.sql.execution.datasources.v2.python.PythonDataSourceReadInfo;
import org.apache.spark.sql.execution.datasources.v2.python.PythonDataSourceV2;
import org.apache.spark.sql.execution.datasources.v2.python.UserDefinedPythonDataSource;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import scala.Option;
import scala.Some;
import scala.collection.immutable.Seq;
import scala.collection.immutable.Seq$;

/**
 * A streaming source in Python that is known: its pickled instance, its columns, and the pickled function that reads a
 * partition. Spark would start a Python process for each of two questions, and one to look for installed sources.
 */
public final class DeclaredSource extends PythonDataSourceV2 {
    private final UserDefinedPythonDataSource source;
    private final PythonDataSourceCreationResult created;
    private final PythonDataSourceReadInfo reader;

    @SuppressWarnings("unchecked")
    private DeclaredSource(final UserDefinedPythonDataSource source, final PythonDataSourceCreationResult created,
                           final byte[] reader) {
        this.source = source;
        this.created = created;
        // Partitions of a stream are planned batch by batch.
        this.reader = new PythonDataSourceReadInfo(reader, (Seq<byte[]>) Seq$.MODULE$.empty());
    }

    /** Returns the rows of a source as a frame, like that of a {@code DataStreamReader} with the source's name. */
    public static Dataset<Row> load(final SparkSession session, final String name, final PythonFunction kind,
                                    final String columns, final byte[] pickled, final byte[] reader) {
        final StructType schema = StructType.fromDDL(columns);
        final DeclaredSource declared = new DeclaredSource(
            new UserDefinedPythonDataSource(kind), new PythonDataSourceCreationResult(pickled, schema), reader);
        declared.setShortName(name);
        final LogicalPlan relation = new StreamingRelationV2(
            new Some<>(declared), name, declared.getTable(schema, new Transform[0], Map.of()),
            CaseInsensitiveStringMap.empty(), DataTypeUtils.toAttributes(schema), Option.empty(), Option.empty(),
            Option.empty(), StreamingRelationV2$.MODULE$.apply$default$9());
        return Dataset.ofRows(session, relation);
    }

    @Override
    public UserDefinedPythonDataSource source() {
        return source;
    }

    @Override
    public PythonDataSourceCreationResult getOrCreateDataSourceInPython(
            final String name, final CaseInsensitiveStringMap options, final Option<StructType> columns) {
        return created;
    }

    @Override
    public PythonDataSourceReadInfo getOrCreateReadInfo(
            final String name, final CaseInsensitiveStringMap options, final StructType columns, final boolean streams) {
        return reader;
    }
}
