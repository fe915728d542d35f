"""Plans a deployment: placement of tasks, routing of records, preflight checks."""
