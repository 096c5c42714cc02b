"""Output of commands: tables, times, prompts, files and exit statuses."""
