"""``python -m whichvars`` is the command line."""

from whichvars.cli import main

if __name__ == "__main__":
    main(prog_name="whichvars")
