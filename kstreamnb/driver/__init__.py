"""The test driver: a whole application in one process, with as many partitions as it will have in production."""

from kstreamnb.driver.recording import Recording
from kstreamnb.driver.replay import Replay
from kstreamnb.driver.replaying import replay
from kstreamnb.driver.test_driver import TopologyTestDriver
from kstreamnb.driver.walk import Breakpoint

__all__ = ["Breakpoint", "Recording", "Replay", "TopologyTestDriver", "replay"]
