"""The test driver: runs a whole application in one process, with as many partitions as in production."""
