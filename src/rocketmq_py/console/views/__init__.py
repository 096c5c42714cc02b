"""What pages say, as functions of the cluster's answers: no IO, no HTTP. An unknown value is None, never 0."""
