"""``python -m mvc``: the same as the command."""

from mvc.cli import main

main()
