"""The environment of Spark: a Java runtime, a ``SPARK_HOME`` with compiled Python modules, Python workers."""
