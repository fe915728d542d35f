"""The vocabulary that every layer shares: records, serdes, stores, processors, time.

Nothing here depends on a topology, an operator or an engine, and nothing here reads a clock.
"""
