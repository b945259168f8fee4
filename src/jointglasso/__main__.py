"""``python -m jointglasso`` is the command line."""

from jointglasso.cli import main

if __name__ == "__main__":
    main()
