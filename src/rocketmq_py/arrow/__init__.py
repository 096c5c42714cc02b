"""Topics as Arrow record batches: what the Spark source and readers without Spark share."""
