"""Pictures are drawn without a screen, in tests and in doctests."""

import os

os.environ.setdefault("MPLBACKEND", "Agg")
