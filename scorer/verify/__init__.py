"""The referee of calibrators: fits them again, applies them again, and says what it could not check (step 3)."""
