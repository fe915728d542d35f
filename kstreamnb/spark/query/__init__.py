"""Running queries: their start, batches, state and end."""
