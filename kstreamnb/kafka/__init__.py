"""Everything that talks to a broker: a local broker, administration, capture, produce, publish, read, reset, registry.

Only this package imports confluent_kafka, and only when one of its modules is used.
"""
