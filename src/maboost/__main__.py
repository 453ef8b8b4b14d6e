"""``python -m maboost``."""

from maboost.cli import main

main()
