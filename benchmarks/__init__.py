"""Speed and scale, measured: see README.md. Nothing here is a test."""
