"""Options, saved contexts and credentials for the cluster that a command connects to."""
