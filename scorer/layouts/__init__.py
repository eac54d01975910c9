"""Where challenge hosts mount labels and submissions, and what they read back: one scorer speaks all of them."""
