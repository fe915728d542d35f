"""Records what tasks do, step by step, in both directions."""
