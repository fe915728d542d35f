"""Routes records between the tasks of a test driver."""
