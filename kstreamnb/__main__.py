"""The command line as a module: ``python -m kstreamnb``."""

from kstreamnb.cli import main

if __name__ == "__main__":
    main()
