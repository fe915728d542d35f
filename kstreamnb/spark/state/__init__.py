"""State on Spark: checkpoints, live stores and their recovery."""
