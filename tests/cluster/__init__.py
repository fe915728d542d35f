"""Deployments on clusters: Spark's processes, HDFS and an S3 server on this machine, each in its own process."""
