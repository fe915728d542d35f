package kstreamnb;

import java.lang.reflect.Field;
import org.apache.spark.sql.execution.streaming.checkpointing.CommitLog;
import org.apache.spark.sql.execution.streaming.checkpointing.CommitMetadataBase;
import org.apache.spark.sql.execution.streaming.runtime.StreamExecution;
import org.apache.spark.sql.execution.streaming.runtime.StreamingQueryWrapper;

/** Spark's log of finished batches, in which a held batch appears when its output is published, and not before. */
public final class LateCommitLog extends CommitLog {
    private static final long NONE = -1;

    private long held = NONE;
    private CommitMetadataBase entry;

    private LateCommitLog(final StreamExecution stream) {
        super(stream.sparkSession(), stream.commitLog().metadataPath().toString(), false);
    }

    /** Replaces the log of a stream by such a log. */
    public static LateCommitLog of(final StreamingQueryWrapper query) throws ReflectiveOperationException {
        final StreamExecution stream = query.streamingQuery();
        final LateCommitLog log = new LateCommitLog(stream);
        final Field field = StreamExecution.class.getDeclaredField("commitLog");
        field.setAccessible(true);
        field.set(stream, log);
        return log;
    }

    /** Keeps the entry of a batch until {@link #release}. */
    public synchronized void hold(final long batch) {
        held = batch;
        entry = null;
    }

    /** Writes the entry of the held batch, now or when Spark hands it over. */
    public synchronized void release() {
        if (entry != null && !super.add(held, entry)) {
            throw new IllegalStateException("another stream has finished batch " + held);
        }
        hold(NONE);
    }

    @Override
    public synchronized boolean add(final long batch, final CommitMetadataBase metadata) {
        if (batch != held) {
            return super.add(batch, metadata);
        }
        entry = metadata;
        return true;
    }
}
