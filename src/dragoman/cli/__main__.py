"""``python -m dragoman.cli`` is the same as ``dragoman``."""

from dragoman.cli import main

if __name__ == "__main__":
    main()
