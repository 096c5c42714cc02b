"""The cluster a command connects to: options, saved contexts and credentials."""
