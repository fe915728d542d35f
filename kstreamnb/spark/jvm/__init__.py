"""Sessions and the adjustments of Spark's JVM."""
