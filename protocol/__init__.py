"""The shapes and the law of the seven-step calibration protocol.

This package stands on the ground floor: it reads no files and imports none of the other packages.
"""

EDITION = "2026.1"
