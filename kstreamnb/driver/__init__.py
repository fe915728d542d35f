"""The test driver: a whole application in one process, with as many partitions as it will have in production."""

from kstreamnb.driver.test_driver import TopologyTestDriver

__all__ = ["TopologyTestDriver"]
