"""Audit of what a paper released: predictions in any shape, and tables in print."""
