package kstreamnb;

import java.io.ByteArrayInputStream;
import java.io.DataInputStream;
import org.apache.spark.api.python.PythonFunction;
import org.apache.spark.sql.execution.datasources.v2.python.PythonDataSourceCreationResult;
import org.apache.spark.sql.execution.datasources.v2.python.PythonDataSourceReadInfo;
import org.apache.spark.sql.execution.datasources.v2.python.UserDefinedPythonDataSource;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import scala.Option;

/** A data source in Python that says at once what Spark would start Python processes to ask: its instance and its reader. */
public final class ReadySource extends UserDefinedPythonDataSource {
    private final transient PythonDataSourceCreationResult instance; // transient: tasks do not ask
    private final transient PythonDataSourceReadInfo reader;

    /** Takes the class, the pickled instance, its schema, and what Spark's process that plans reads would answer. */
    public ReadySource(final PythonFunction type, final byte[] instance, final String schema, final byte[] reader) {
        super(type);
        this.instance = new PythonDataSourceCreationResult(instance, StructType.fromDDL(schema));
        this.reader = PythonDataSourceReadInfo.receive(new DataInputStream(new ByteArrayInputStream(reader)));
    }

    @Override
    public PythonDataSourceCreationResult createDataSourceInPython(
            final String name, final CaseInsensitiveStringMap options, final Option<StructType> schema) {
        return instance;
    }

    @Override
    public PythonDataSourceReadInfo createReadInfoInPython(
            final PythonDataSourceCreationResult created, final StructType schema, final boolean streams) {
        return reader;
    }
}
