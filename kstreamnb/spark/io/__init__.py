"""Sources, sinks and data frames."""
