"""`python -m pflrepro` is the command `pflrepro`."""

import sys

from pflrepro.cli import main

if __name__ == "__main__":
    sys.exit(main())
