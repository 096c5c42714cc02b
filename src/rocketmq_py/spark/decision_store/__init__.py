"""Durable storage of exactly-once decisions, in local directories, HDFS and object stores."""
