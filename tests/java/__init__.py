"""The same topologies on the real Kafka Streams runtime, in the driver and on Spark: ``make test-java``."""
