"""Tables, times, prompts, files and exit statuses of commands."""
