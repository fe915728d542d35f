"""The test driver: a whole application in one process, with as many partitions as it will have in production."""

from kstreamnb.driver.recording import Recording
from kstreamnb.driver.replay import Breakpoint, Replay, replay
from kstreamnb.driver.test_driver import TopologyTestDriver

__all__ = ["Breakpoint", "Recording", "Replay", "TopologyTestDriver", "replay"]
