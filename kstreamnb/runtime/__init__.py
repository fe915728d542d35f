"""How a topology runs: a task takes records and clock ticks in and gives produced records and events out.

Nothing here does input or output, and nothing here knows which engine holds the task.
"""
