"""Executes tasks in Spark workers, batch by batch."""
