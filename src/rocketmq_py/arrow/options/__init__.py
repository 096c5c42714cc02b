"""Options of reads and of connections: their values, defaults and rules. No IO."""
