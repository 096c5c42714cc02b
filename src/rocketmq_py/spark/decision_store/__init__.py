"""Durable records of exactly-once decisions: local, HDFS and object stores."""
