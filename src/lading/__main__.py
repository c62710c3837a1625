"""`python -m lading` is the `lading` command."""

from lading.cli.main import main

if __name__ == "__main__":
    main()
