package kstreamnb;

import java.lang.reflect.Field;
import java.util.HashMap;
import java.util.Map;
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
     */
    public static void close(final String run) throws ReflectiveOperationException {
        final Map<StateStoreProviderId, StateStoreProvider> found = new HashMap<>();
        final scala.collection.mutable.Map<StateStoreProviderId, StateStoreProvider> loaded = field("loadedProviders");
        synchronized (loaded) { // as Spark does
            found.putAll(CollectionConverters.asJava(loaded));
        }
        final ConcurrentLinkedQueue<Tuple3<StateStoreProviderId, StateStoreProvider, ?>> waiting =
            field("unloadedProvidersToClose");
        waiting.forEach(each -> found.put(each._1(), each._2()));
        found.keySet().removeIf(id -> !id.queryRunId().toString().equals(run));
        found.forEach((id, provider) -> {
            final Lock maintenance = provider.maintenanceLock().writeLock();
            maintenance.lock();
            try {
                StateStore$.MODULE$.removeFromLoadedProvidersAndClose(id);
                StateStore$.MODULE$.closeProvider(id, provider);
            } finally {
                maintenance.unlock();
            }
        });
    }

    @SuppressWarnings("unchecked")
    private static <T> T field(final String name) throws ReflectiveOperationException {
        final Field field = StateStore$.class.getDeclaredField(name);
        field.setAccessible(true);
        return (T) field.get(StateStore$.MODULE$);
    }
}
