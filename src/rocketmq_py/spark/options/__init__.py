"""Options of the data source as Spark passes them: which are known, for which use, and those of writes. No IO."""
