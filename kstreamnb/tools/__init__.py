"""Tools that use several engines: parity, benchmark, demo, store server."""
