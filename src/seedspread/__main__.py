"""`python -m seedspread`: the same as the command `seedspread`."""

from seedspread.cli import main

if __name__ == "__main__":
    main()
