"""Hooks around sending and consuming: those of applications, and message traces."""
