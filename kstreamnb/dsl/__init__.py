"""The DSL of Kafka Streams: `StreamsBuilder`, streams and tables, and the option objects.

What a user declares is kept in a ledger; building replays it into a logical graph and lowers that to a topology.
"""
