package kstreamnb;

import org.apache.spark.sql.Encoders;
import org.apache.spark.sql.execution.python.streaming.TransformWithStateInPySparkPythonPreInitRunner;
import org.apache.spark.sql.streaming.TTLConfig;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;

/** The state of the kit's stateful operators, which each would otherwise declare in another Python process. */
public final class DeclaredState {
    private static final String SETTING = "spark.kstreamnb.state"; // a name, and the schemas of a map's keys and values

    private DeclaredState() { }

    /** Declares the state that the session's setting describes; returns false if there is none. */
    public static boolean declare(final TransformWithStateInPySparkPythonPreInitRunner runner) {
        final String[] state = runner.sqlConf().getConfString(SETTING, "").split("\n");
        if (state.length == 3) {
            runner.org$apache$spark$sql$execution$python$streaming$TransformWithStateInPySparkPythonPreInitRunner$$processorHandleImpl.getMapState(
                state[0], Encoders.row(schema(state[1])), Encoders.row(schema(state[2])), TTLConfig.NONE());
        }
        return state.length == 3;
    }

    private static StructType schema(final String json) {
        return (StructType) DataType.fromJson(json);
    }
}
