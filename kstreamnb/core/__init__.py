"""The words that every layer shares: records, serdes, stores, processors, time and places.

Nothing here knows a topology, an operator or an engine, and nothing here reads a clock.
"""
