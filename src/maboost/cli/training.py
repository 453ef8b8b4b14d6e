"""``maboost train``: a table in, a model and a report out."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import click
import numpy as np
import pyarrow as pa

import maboost
from maboost.certification import Certification
from maboost.cli import checkpoint_options, class_weight_options, flip_rate_options
from maboost.cli.certifying import certification_json, certify_with_notes
from maboost.cli.classifier_options import booster, booster_name
from maboost.cli.column_checks import (
    DATES,
    NUMBERS,
    TEXT,
    YES_NO,
    Problems,
    check_column,
    identifiers,
    kind_of,
    with_numbers,
)
from maboost.cli.columns import TrainedColumns, numbers_as_text
from maboost.cli.config_file import configured
from maboost.cli.console import (
    INTERRUPTED,
    check_columns,
    check_different_files,
    check_writable,
    find_target,
    is_number,
    print_lines,
    report_errors,
    safe_csv_option,
    shortened,
    working,
)
from maboost.cli.dates import with_all_parts
from maboost.cli.held_out_rows import (
    filtered,
    held_out_share,
    is_lumpy,
    labelled,
    report_rows,
    what_is_lost,
)
from maboost.cli.reading_options import (
    ReadOptions,
    reading_options,
    rows_source,
    skip_unlabelled_option,
)
from maboost.cli.row_values import as_numbers
from maboost.cli.training_summary import print_summary, summary
from maboost.cli.words import in_options
from maboost.data.datasets import index_columns
from maboost.data.files import (
    Source,
    TableError,
    check_safe_csv,
    check_suffix,
    read_table,
    write_table,
)
from maboost.data.holdout import held_out
from maboost.estimators import BOOSTERS
from maboost.estimators.progress import display, showing
from maboost.report.writer import check_report_name

__all__ = ["train"]

# more classes than this, of fewer rows on average, are taken for numbers, names or identifiers
_FEW_CLASSES, _ROWS_OF_A_CLASS = 100, 5


@click.command()
@click.argument("data", type=rows_source)
@click.option(
    "--target",
    help="Column to predict. [default: one called target, label, class, y or outcome; else the last]",
)
@click.option(
    "--booster",
    type=click.Choice(list(BOOSTERS)),
    default=None,
    help="Which distribution. [default: smooth, or combined with --domain-column]",
)
@click.option("--noise-rate", type=float, help="Share of wrong or unpredictable labels (smooth).")
@click.option(
    "--smoothness", type=float, help="Cap on a row's weight, in times its share (smooth, margin)."
)
@click.option(
    "--tolerance", type=float, help="Gap to the best soft margin at which to stop (margin)."
)
@click.option("--sparsity", type=float, help="Share of the rows left out of every round (sparse).")
@click.option(
    "--kappa", type=float, help="Below 1, a penalty that makes the distribution sparser (sparse)."
)
@click.option("--weight-column", help="Column of row weights.")
@click.option(
    "--class-weight",
    multiple=True,
    metavar="balanced|LABEL=FACTOR",
    help="Weigh the rows of a class by a factor, which may be repeated, or all classes the same.",
)
@click.option(
    "--flip-rate",
    "flip_rates",
    multiple=True,
    metavar="RATE|CLASS=RATE",
    help="Share of the rows of a true class whose label is another; may be repeated, or one number for all "
    "classes. With --domain-column SOURCE=RATE for each source, 0 for one whose labels are right.",
)
@click.option("--domain-column", help="Column that names each row's data source.")
@click.option(
    "--domain-limit",
    "limits",
    multiple=True,
    metavar="NAME=LIMIT",
    help="Error allowed on a source, or none; one for each source.",
)
@click.option(
    "--categorical",
    multiple=True,
    metavar="COLUMN",
    help="Read a column of numbers as categories. May be repeated.",
)
@click.option(
    "--drop", multiple=True, metavar="COLUMN", help="Leave a column out. May be repeated."
)
@click.option(
    "--drop-ids",
    is_flag=True,
    help="Leave out columns of text or whole numbers with a different value in every row, and an index without "
    "a name.",
)
@click.option(
    "--dates",
    type=click.Choice(["seconds", "parts"]),
    default="seconds",
    show_default=True,
    help="Read dates and times as seconds, or as year, month, weekday and hour.",
)
@click.option(
    "--rounds", type=int, help="Rounds at most. [default: 100, or 300 with early stopping]"
)
@click.option("--max-depth", type=int, help="Depth of the trees. [default: the booster's]")
@click.option("--max-leaf-nodes", type=int, help="Leaves of a tree. [default: the booster's]")
@click.option("--min-samples-leaf", type=int, help="Rows in a leaf. [default: the booster's]")
@click.option("--learning-rate", type=float, help="Factor on every step, in (0, 1].")
@click.option(
    "--valid",
    metavar="FRACTION|FILE",
    help="Validation rows: a share to hold out, or a file. Stops early and keeps the best round; 0 holds out "
    "nothing. [default: 0.2 of the rows measure the error and do nothing else; from 10,000 rows on a tenth of the "
    "others stops early]",
)
@click.option(
    "--certify",
    type=float,
    metavar="FRACTION",
    help="Set this share of the rows aside for nothing but bounds of the error on fresh rows. [default: 0.2 "
    "without --valid]",
)
@reading_options
@skip_unlabelled_option
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of everything random.")
@click.option("--jobs", type=int, help="Threads. [default: all cores]")
@click.option("--out", type=click.Path(path_type=Path), help="Write the model there.")
@click.option("--report", type=click.Path(path_type=Path), help="Write an HTML report there.")
@click.option(
    "--suspects",
    type=click.Path(path_type=Path),
    help="Write the labels that look wrong there, as a CSV or Parquet file.",
)
@safe_csv_option
@click.option(
    "--checkpoint",
    type=click.Path(path_type=Path),
    help="Save the state of training there; the same command, run again, continues from it.",
)
@click.option("--checkpoint-every", type=int, metavar="ROUNDS", help="How often. [default: 10]")
@click.option(
    "--resume/--no-resume",
    default=None,
    help="Whether to continue from an existing checkpoint, or start from the beginning. [default: continue]",
)
@click.option("--json", "as_json", is_flag=True, help="Print the summary as JSON.")
@click.option("--quiet", is_flag=True, help="No progress.")
@click.option(
    "--config",
    type=click.Path(path_type=Path),
    help="TOML file with these options (rounds = 50, ...); the command line wins.",
)
@click.pass_context
@report_errors
def train(context: click.Context, data: Source, config: Path | None, **options: Any) -> None:
    """Train a booster on DATA (CSV or Parquet, or - for standard input)."""
    if config is not None:
        options = configured(context, config, options)
    written = _written(options)
    factors = class_weight_options.parse(options["class_weight"])
    by_source = booster_name(options) == "combined"
    rates = flip_rate_options.parse(options["flip_rates"], by_source)
    check_different_files(
        {"the rows": data, "--valid": _file(options["valid"]), "--config": config}, written
    )
    if options["report"] is not None:
        check_report_name(options["report"], "--report")
    model = booster(options)
    text = {options["domain_column"], *options["categorical"]}
    quiet = options["quiet"] or options["as_json"]
    model.set_params(verbose=0 if quiet else max((options["rounds"] or 100) // 10, 1))
    how = ReadOptions.of(options)
    with working(f"reading {data.name}", quiet):
        table = read_table(data, how.decimal, lambda name: name in text, how.separator)
        job = _Job(data, table, options)
        job.set_aside(options["seed"])
    classes = np.unique(job.y).tolist()
    model.set_params(class_weight=class_weight_options.for_classes(factors, classes, job.target))
    model.set_params(
        flip_rates=flip_rate_options.for_classes(rates, classes, job.target, by_source)
    )
    if not options["as_json"]:
        job.describe(data)
    interrupted = job.fit(model)
    with showing(model.verbose):
        certification = job.certification(model, None if by_source else model.flip_rates)
        _write(model, job, data, options, certification)
        found = summary(
            model, options, rows=job.X.num_rows, features=len(job.features), target=job.target,
            held_out_rows=0 if job.fresh is None else job.fresh["X"].num_rows,
        )  # fmt: skip
    if options["as_json"]:
        first = (
            {} if certification is None else {"certification": certification_json(certification)}
        )
        click.echo(json.dumps(first | found, indent=2))
    else:
        print_summary(found, certification, len(model.history_))
    if interrupted:
        raise SystemExit(INTERRUPTED)


def _written(options: dict[str, Any]) -> dict[str, Path | None]:
    """Return the files to write, by option; refuse files that cannot be written, before the table is read."""
    written = {f"--{name}": options[name] for name in ("out", "report", "suspects", "checkpoint")}
    for option, path in written.items():
        check_writable(path, option)
    if options["suspects"] is not None:
        check_suffix(options["suspects"])
    if options["safe_csv"]:
        if options["suspects"] is None:
            raise TableError(
                "--safe-csv needs --suspects FILE.csv: no other file of a training is CSV"
            )
        check_safe_csv("--suspects", options["suspects"])
    checkpoint_options.check(options)
    if options["certify"] is not None and not 0.0 < options["certify"] < 1.0:
        raise TableError(f"--certify {options['certify']:g} must be a share between 0 and 1")
    return written


def _file(valid: str | None) -> Path | None:
    """Return the file of --valid, if it is not one of the numbers that --valid accepts."""
    return None if valid is None or is_number(valid) else Path(valid)


def _write(
    model: Any,
    job: _Job,
    data: Source,
    options: dict[str, Any],
    certification: Certification | None,
) -> None:
    """Write the requested files."""
    if options["out"] is not None:
        display().phase("writing the model")
        model.save(options["out"])
    if options["report"] is not None:
        display().phase("writing the report")
        maboost.write_report(
            model,
            options["report"],
            X=job.X,
            y=job.y,
            sample_weight=job.fit_options.get("sample_weight"),
            **report_rows(job.fresh),
            certification=certification,
            source=data.name,
        )
    if options["suspects"] is not None:
        labels = model.suspect_labels()
        suspects = labels[labels["is_label_issue"]].reset_index()
        suspects["row"] = job.table_rows[suspects["row"].to_numpy()]
        write_table(dict(suspects.items()), options["suspects"], options["safe_csv"])


class _Job:
    """A table and the options of its training."""

    def __init__(self, data: Source, table: Any, options: dict[str, Any]) -> None:
        self.options = options
        self.reading = ReadOptions.of(options)
        self.roles = {
            role: options[f"{role}_column"]
            for role in ("weight", "domain")
            if options[f"{role}_column"] is not None
        }
        left_out = {*self.roles.values(), *options["drop"], *index_columns(table.schema)}
        categorical = options["categorical"]
        self.target, self.inferred = self._target(table.column_names, {*left_out, *categorical})
        named = (
            self.target,
            *self.roles.values(),
            *options["drop"],
            *categorical,
            *options["numeric"],
        )
        check_columns(named, table.column_names)
        self._check_categorical()
        table = with_numbers(data, table, options["numeric"], self.reading.decimal)
        self.table_rows = np.arange(table.num_rows)  # the rows of the table that are fitted
        if options["skip_unlabelled"]:
            has = labelled(data, table, self.target)
            table, self.table_rows = filtered(table, has), self.table_rows[has]
        left_out.add(self.target)
        if options["dates"] == "parts":
            table = with_all_parts(table, left_out)
        problems = Problems()
        with problems.collected():
            table = numbers_as_text(data, table, categorical, self.reading.decimal)
        sound = []
        for name in (name for name in table.column_names if name not in left_out):
            with problems.collected():
                check_column(
                    data, name, table.column(name), self.reading.decimal, name in categorical
                )
                sound.append(name)
        meant = {*categorical, *options["numeric"]}
        ids = identifiers(table, [name for name in sound if name not in meant])
        if options["drop_ids"]:
            left_out |= ids.keys()
        self.features = [name for name in table.column_names if name not in left_out]
        if not self.features:
            raise TableError(
                f"no column is left to learn from: the columns are {shortened(table.column_names)}, and the "
                f"target is {self.target!r}. If the cells are not separated by commas, semicolons, tabs or bars, "
                "say --sep CHARACTER"
            )
        self.X = table.select(self.features)
        with problems.collected():
            self.y = self._labels(table)
        self.fit_options: dict[str, Any] = {}
        for role in self.roles:
            with problems.collected():
                self.fit_options |= self._role(role, table)
        problems.check()
        self._tell_identifiers(ids)
        self.fit_options |= self._validation_rows()
        self.fresh: dict[str, Any] | None = None
        self.why_not_held_out = ""

    def set_aside(self, seed: int) -> None:
        """Hold out rows for the bounds of the error; they are used for nothing else.

        A hash of their features chooses them, regardless of labels, so that they are distributed like the table
        and equal rows stay together. The default part does not depend on the seed, so that trainings with
        different seeds are measured on the same rows.
        """
        asked = self.options["certify"]
        fraction = held_out_share(asked, self.options["valid"])
        if fraction is None:
            return
        count = self.X.num_rows
        one_class = np.zeros(count, dtype=np.intp)
        out = held_out(
            as_numbers(self.X), one_class, 1, np.ones(count), fraction, 0 if asked is None else seed
        )
        options = self.fit_options
        lost = what_is_lost(out, self.y, options.get("sample_domain"))
        if not lost and asked is None and is_lumpy(out, fraction):
            lost = "would be many more, since equal rows stay together"
        if lost:
            if asked is not None:
                raise TableError(
                    f"--certify {fraction:g} sets {int(out.sum())} of {count} rows aside and {lost}: give another "
                    "share, or certify later on rows of another file"
                )
            self.why_not_held_out = lost
            return
        self.fresh = {
            "X": filtered(self.X, out),
            "y": self.y[out],
            "groups": options["sample_domain"][out] if "sample_domain" in options else None,
            "sample_weight": options["sample_weight"][out] if "sample_weight" in options else None,
        }
        self.X, self.y = filtered(self.X, ~out), self.y[~out]
        self.table_rows = self.table_rows[~out]
        for name in ("sample_weight", "sample_domain"):
            if name in options:
                options[name] = options[name][~out]

    def certification(self, model: Any, flip_rates: Any) -> Certification | None:
        """Return bounds of the error on the held-out rows, against true labels if flip rates are given."""
        if self.fresh is None:
            return None
        display().phase("measuring the error on the held-out rows")
        return certify_with_notes(model, **self.fresh, flip_rates=flip_rates)

    def _target(self, names: list[str], left_out: set[str]) -> tuple[str, str]:
        """Return the column to predict, which is neither dropped nor the weights."""
        asked = self.options["target"]
        for option, columns in {
            "--drop": self.options["drop"],
            "--weight-column": [self.options["weight_column"]],
            "--categorical": self.options["categorical"],
        }.items():
            if asked is not None and asked in columns:
                raise TableError(f"column {asked!r} cannot be both --target and {option}")
        left = [name for name in names if name not in left_out]
        if asked is None and not left:
            raise TableError("no column is left to predict")
        return find_target(left, asked)

    def _tell_identifiers(self, ids: dict[str, str]) -> None:
        """Print which columns tell rows apart, and why."""
        for name, why in ids.items():
            print_lines(
                f"maboost: column {name!r} is left out: {why}"
                if self.options["drop_ids"]
                else f"maboost: column {name!r} looks like an identifier ({why}), from which a model learns rows by "
                "heart: --drop-ids leaves it out",
                err=True,
            )

    def _check_categorical(self) -> None:
        """Refuse `--categorical` for a column that is not a feature, or is to be numbers."""
        others = {f"--{role}-column": [name] for role, name in self.roles.items()}
        others |= {"--drop": self.options["drop"], "--numeric": self.options["numeric"]}
        for option, columns in others.items():
            for name in columns:
                if name in self.options["categorical"]:
                    raise TableError(f"column {name!r} cannot be both --categorical and {option}")

    def _labels(self, table: Any) -> np.ndarray[Any, Any]:
        column = table.column(self.target)
        if column.null_count == len(column):
            raise TableError(
                f"the target {self.target!r} has no values: choose another by --target"
            )
        if column.null_count:
            raise TableError(
                f"the target {self.target!r} is missing in {column.null_count} of {len(column)} rows: "
                "leave those rows out, or say --skip-unlabelled (in CSV files no class can be called NA, None or ?)"
            )
        if kind_of(column.type) not in (YES_NO, NUMBERS, TEXT):
            raise TableError(
                f"the target {self.target!r} holds {column.type}, which is neither a number nor text: turn "
                "it into one of them, or choose another --target"
            )
        if pa.types.is_decimal(column.type):
            column = column.cast(pa.float64())
        labels = np.array(column.to_pylist())
        count = len(np.unique(labels))
        if count < 2:
            raise TableError(
                f"the target {self.target!r} has one value only, {labels[0].item()!r}: nothing to learn"
            )
        if count > _FEW_CLASSES and count * _ROWS_OF_A_CLASS > len(labels):
            raise TableError(
                f"the target {self.target!r} has {count} different values in {len(labels)} rows: it is not a class. "
                "This is a classifier; choose another --target, or group its values"
            )
        if labels.dtype.kind == "f" and (parts := labels[labels != np.floor(labels)]).size:
            raise TableError(
                f"the target {self.target!r} holds {parts[0].item()!r}, which is not a class. This is a "
                "classifier; choose another --target, or group its values"
            )
        return labels

    def _role(self, role: str, table: Any) -> dict[str, Any]:
        column = table.column(self.roles[role])
        if role == "weight":
            return {"sample_weight": self._weights(column)}
        return {"sample_domain": self._sources(column)}

    def _validation_rows(self) -> dict[str, Any]:
        """Return the rows of the file of --valid."""
        valid = self.options["valid"]
        if valid is None or is_number(valid):
            return {}
        trained = TrainedColumns.of_rows(self.X, self.y)
        other = trained.read(Path(valid), self.reading, self.target)
        if self.target not in other.column_names:
            raise TableError(f"--valid {valid}: there is no column {self.target!r}")
        if self.reading.skip_unlabelled:
            other = filtered(other, labelled(Path(valid), other, self.target))
        labels = trained.labels(valid, self.target, other.column(self.target))
        return {"X_val": other.select(self.features), "y_val": labels}

    def _weights(self, column: Any) -> np.ndarray[Any, Any]:
        name = self.roles["weight"]
        if column.null_count:
            raise TableError(
                f"--weight-column {name!r} is missing in {column.null_count} of {len(column)} rows: give "
                "them a weight, or leave them out"
            )
        try:
            weights = np.array(column.to_pylist(), dtype=float)
        except (TypeError, ValueError):
            raise TableError(f"--weight-column {name!r} is not a column of numbers") from None
        if not np.all(np.isfinite(weights)):
            raise TableError(f"--weight-column {name!r} must hold finite numbers")
        if not np.any(weights):
            raise TableError(
                "--weight-column is 0 in all rows: give some of them a positive weight"
            )
        return weights

    def _sources(self, column: Any) -> np.ndarray[Any, Any]:
        if column.null_count:
            raise TableError(
                f"--domain-column {self.roles['domain']!r} is missing in {column.null_count} of "
                f"{len(column)} rows: name their source, or leave them out"
            )
        sources = np.array([str(value) for value in column.to_pylist()])
        self._check_limits(set(sources.tolist()))
        return sources

    def _check_limits(self, sources: set[str]) -> None:
        """Check that every source has a limit, and every limit a source."""
        limits = {text.rpartition("=")[0]: text for text in self.options["limits"]}
        column = f"--domain-column {self.roles['domain']!r}"
        unlimited = sorted(sources - set(limits))
        if unlimited and (limits or not self.options["flip_rates"]):
            raise TableError(
                f"{column} has sources without a --domain-limit: {shortened(unlimited)}; give each "
                "NAME=LIMIT, or NAME=none for one that must be right"
            )
        for name in sorted(set(limits) - sources):
            raise TableError(
                f"--domain-limit {limits[name]} names a source that is not in {column}"
            )

    def describe(self, data: Source) -> None:
        """Print what was inferred from the table, for the user to check."""

        def tell(text: str) -> None:
            print_lines(text, err=True)

        how = f" ({self.inferred})" if self.inferred else ""
        labels = self.y if self.fresh is None else np.concatenate([self.y, self.fresh["y"]])
        classes, counts = np.unique(labels, return_counts=True)
        shown = ", ".join(f"{c} {n}" for c, n in zip(classes[:8].tolist(), counts[:8], strict=True))
        tell(f"{data}: {len(labels)} rows, {len(self.features)} features")
        more = f", ... ({len(classes)} classes)" if len(classes) > 8 else ""
        tell(f"target    {self.target!r}{how}: {shown}{more}")
        kinds: dict[str, list[str]] = {}
        for name, column in zip(self.features, self.X.columns, strict=True):
            empty = column.null_count == len(column)
            kinds.setdefault("no values" if empty else kind_of(column.type), []).append(name)
        for kind, names in kinds.items():
            how = "; read as seconds, --dates parts for year, month, weekday and hour"
            tell(f"{kind:<9} {shortened(names)}{how if kind == DATES else ''}")
        if self.fresh is not None:
            held = f"held out  {self.fresh['X'].num_rows} of the rows, which only measure the error"
            tell(
                held
                if self.options["certify"] is not None
                else f"{held}; --valid 0 trains on all rows"
            )
        if self.why_not_held_out:
            tell(f"held out  no rows: a fifth of them {self.why_not_held_out}")
        if self.options["out"] is None:
            tell("model     will not be kept: --out FILE writes it")
        if self.options["checkpoint"] is not None:
            tell(f"checkpoint {checkpoint_options.description(self.options)}")

    def fit(self, model: Any) -> bool:
        """Fit the model; return whether training was interrupted."""
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                model.fit(self.X, self.y, **self.fit_options)
            except (ValueError, OSError) as error:
                raise TableError(in_options(error)) from error
        warned = [w.message for w in caught if issubclass(w.category, UserWarning)]
        notes = [in_options(w) if isinstance(w, Warning) else w for w in warned]
        for note in notes:
            print_lines(f"maboost: {' '.join(note.split())}", err=True)
        return any(note.startswith("interrupted") for note in notes)
