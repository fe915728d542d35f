"""State stores in memory, with the retention, order, caching and changelog of Kafka Streams.

`make_store` builds a store from a `StoreSpec`. Every store keeps its rows in one dict, reports its changes to a
journal, and can be undone, snapshotted and restored. Nothing here depends on a topology's operators or an engine.
"""
