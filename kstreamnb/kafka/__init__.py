"""Everything that talks to a broker: a local broker, administration, capture, produce, publish, read, reset, registry.

Only this package imports confluent_kafka, and only when one of its modules is used.
"""

from kstreamnb.lazy_names import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__, "kafka")
