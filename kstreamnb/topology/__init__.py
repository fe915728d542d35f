"""The topology: frozen nodes, the checks made while it is built, sub-topologies, descriptions, partitions and tasks."""
