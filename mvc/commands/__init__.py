"""One thin file per command group."""
