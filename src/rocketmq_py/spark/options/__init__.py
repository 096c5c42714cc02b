"""Options of the data source: parsing, defaults and limits. No IO."""
