"""Code that runs around sending and consuming: hooks of applications and message traces."""
