"""How a topology runs: a task takes records and clock ticks and returns produced records and events.

Nothing here does input or output, and nothing here depends on the engine that holds the task.
"""
