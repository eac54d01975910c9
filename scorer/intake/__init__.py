"""Intake: hostile bytes into fixed-width arrays, in a process of its own."""

NULL = -(2**63)  # null in an integer array
