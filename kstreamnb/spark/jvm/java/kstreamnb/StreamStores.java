package kstreamnb;

import java.lang.reflect.Field;
import java.util.HashMap;
import java.util.Map;
import java.util.StringJoiner;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.locks.Lock;
import org.apache.spark.sql.execution.streaming.state.StateStore$;
import org.apache.spark.sql.execution.streaming.state.StateStoreProvider;
import org.apache.spark.sql.execution.streaming.state.StateStoreProviderId;
import scala.Tuple3;
import scala.jdk.javaapi.CollectionConverters;

/** The state stores that this JVM has loaded for a stream, which Spark keeps for up to a minute after its end. */
public final class StreamStores {
    private StreamStores() {
    }

    /**
     * Closes the stores of a stream that has ended, after the maintenance in progress. Spark would maintain them once
     * more before it closes them: write their last snapshot, and delete old files.
     *
     * @return the stores that could not be closed, each with the reason; all others are closed
     */
    public static String close(final String run) throws ReflectiveOperationException {
        final Map<StateStoreProviderId, StateStoreProvider> found = new HashMap<>();
        final scala.collection.mutable.Map<StateStoreProviderId, StateStoreProvider> loaded = field("loadedProviders");
        synchronized (loaded) { // as Spark does
            found.putAll(CollectionConverters.asJava(loaded));
        }
        final ConcurrentLinkedQueue<Tuple3<StateStoreProviderId, StateStoreProvider, ?>> waiting =
            field("unloadedProvidersToClose");
        waiting.forEach(each -> found.put(each._1(), each._2()));
        found.keySet().removeIf(id -> !id.queryRunId().toString().equals(run));
        final StringJoiner failures = new StringJoiner("; ");
        found.forEach((id, provider) -> {
            final Lock maintenance = provider.maintenanceLock().writeLock();
            maintenance.lock();
            try {
                StateStore$.MODULE$.removeFromLoadedProvidersAndClose(id);
                StateStore$.MODULE$.closeProvider(id, provider);
            } catch (final Exception error) { // Scala does not declare what it throws
                failures.add(id.storeId() + ": " + error.toString().lines().findFirst().orElse(""));
            } finally {
                maintenance.unlock();
            }
        });
        return failures.toString();
    }

    @SuppressWarnings("unchecked")
    private static <T> T field(final String name) throws ReflectiveOperationException {
        final Field field = StateStore$.class.getDeclaredField(name);
        field.setAccessible(true);
        return (T) field.get(StateStore$.MODULE$);
    }
}
