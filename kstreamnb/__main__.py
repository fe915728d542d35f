"""The command line as a module: ``python -m kstreamnb``, where no program is on the PATH."""

from kstreamnb.cli import main

if __name__ == "__main__":
    main()
