"""`python -m lading` is the `lading` command."""

import sys

from lading.cli.console import main

if __name__ == "__main__":
    sys.exit(main())
