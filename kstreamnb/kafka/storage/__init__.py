"""Files of checkpoints, and claims on them."""
