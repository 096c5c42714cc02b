"""Which cluster a command talks to: options, saved contexts, credentials."""
