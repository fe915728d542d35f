"""Tools that bring several engines together: parity, benchmark, demo, store server."""
