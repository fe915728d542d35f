"""The topology: frozen nodes, every check that building makes, sub-topologies, descriptions, partitions and tasks."""
