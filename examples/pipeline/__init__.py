"""A whole pipeline: flights become messages, and these become tables of raw, clean and summed-up data.

Read ``streams`` first. ``python -m examples.pipeline`` starts it.
"""
