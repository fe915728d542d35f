"""Samples: bounded, ordered, immutable sets of records, from text, frames, files and Kafka."""

from kstreamnb.samples.sample import Sample
from kstreamnb.samples.statistics import SampleStatistics

__all__ = ["Sample", "SampleStatistics"]
