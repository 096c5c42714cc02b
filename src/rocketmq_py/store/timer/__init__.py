"""The files of delayed messages: timer wheel and timer log."""
