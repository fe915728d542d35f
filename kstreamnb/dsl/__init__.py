"""The DSL of Kafka Streams: `StreamsBuilder`, streams and tables, and the option objects.

The user's calls are kept in a log of declarations; building replays them into a logical graph, which is lowered to a
topology.
"""
