"""The parts that a task works with: plan, configuration, queues, contexts and error handlers."""
