"""Intake: hostile bytes into fixed-width arrays, in a process of its own."""

NULL = -(2**63)  # null in an integer array
DISK_REFUSED = 74  # exit code of the decoding process where the disk, not the table, was at fault
