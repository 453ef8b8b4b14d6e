"""``python -m benchmarks.studies run`` measures what is missing; ``write`` makes the page from the results."""

from __future__ import annotations

import argparse

from benchmarks.studies import accuracy


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", nargs="+", choices=["run", "write"])
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--hours", type=float, help="start no further cell after so many hours")
    options = parser.parse_args()
    if "run" in options.what:
        accuracy.run(options.processes, options.hours)
    if "write" in options.what:
        accuracy.write()


if __name__ == "__main__":
    main()
