"""The test driver: a whole application in one process, with as many partitions as it will have in production."""
