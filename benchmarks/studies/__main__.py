"""``python -m benchmarks.studies run`` measures what is missing; ``write`` makes the pages from the results."""

from __future__ import annotations

import argparse

from benchmarks.studies import accuracy, certified, out_of_core, sources

STUDIES = {
    "sources": sources,
    "certified": certified,
    "out_of_core": out_of_core,
    "accuracy": accuracy,  # the longest one last
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", nargs="+", choices=["run", "write"])
    parser.add_argument("--only", choices=STUDIES, help="one study instead of all")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument(
        "--hours", type=float, help="start no further cell of accuracy after so many hours"
    )
    options = parser.parse_args()
    for name in [options.only] if options.only else STUDIES:
        if "run" in options.what:
            if name == "accuracy":
                accuracy.run(options.processes, options.hours)
            else:
                STUDIES[name].run(options.processes)
        if "write" in options.what:
            STUDIES[name].write()


if __name__ == "__main__":
    main()
