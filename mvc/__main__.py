"""``python -m mvc``: the same as the command."""

import sys

try:
    from mvc.cli import main

    main()
except KeyboardInterrupt:  # while the command itself was still being loaded
    sys.exit(130)
