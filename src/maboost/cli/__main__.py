"""``python -m maboost.cli``."""

from maboost.cli import main

main()
