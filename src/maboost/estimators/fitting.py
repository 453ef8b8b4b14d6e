"""The fit: a run over checked rows, from the first round to the attributes of the model."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone

from maboost.boosting.booster import Booster
from maboost.boosting.calibration import (
    POPULATION_SCALE,
    UNSEEN_ERROR,
    VALIDATION_SMOOTHING,
    calibrated,
    probability_scale,
    training_smoothing,
)
from maboost.boosting.certificate import Certificate, GroupBound
from maboost.boosting.ensemble import Ensemble
from maboost.boosting.game import Game, Validation
from maboost.boosting.groups import Groups
from maboost.boosting.history import History, Record, Round, Rounds
from maboost.boosting.loop import Run
from maboost.boosting.stopping import MaxSeconds, NoImprovement, Stop, TargetError, best_round
from maboost.data.categories import warn_of_rare
from maboost.data.holdout import held_out
from maboost.data.labels import refuse_missing
from maboost.data.training_rows import TrainingRows
from maboost.data.weights import RowWeights
from maboost.estimators.control import (
    Interrupts,
    Score,
    Tasks,
    booster_parameters,
    parameter_changes,
)
from maboost.estimators.cross_fit import classes_among, cross_fitted_votes
from maboost.estimators.error_limits import warn_of_limits
from maboost.estimators.progress import display
from maboost.estimators.suspects import Evidence, Suspicion
from maboost.estimators.voting import Voting
from maboost.learners.base import WeakLearner
from maboost.learners.tree.learner import TreeLearner
from maboost.learners.tree.packing import counted_rows
from maboost.mirror.measure import BaseMeasure
from maboost.mirror.parameters import change_message, described
from maboost.noise.label_noise import LabelNoise
from maboost.runtime.communicator import (
    Communicator,
    SerialCommunicator,
    global_count,
    reproducible_sum,
    sums_by_code,
)
from maboost.runtime.parameter_errors import Advice, ParameterError, Setting
from maboost.runtime.threads import Threads, available_threads

if TYPE_CHECKING:
    from maboost.io.checkpoint import Checkpoint

__all__ = ["Fitting", "Sources", "rounds_done"]

Array = NDArray[np.float64]


# early_stopping="auto" and n_estimators="auto"
_KEPT_ROWS = 50_000  # the most rows that are kept for suspect_labels()
_MANY_ROWS, _ROUNDS, _ROUNDS_UNTIL_STOPPED = 10_000, 100, 300


class Sources(NamedTuple):
    """Data sources with certificates of their own: their rows, error limits and largest masses."""

    groups: Groups
    limits: dict[Any, float | None]
    masses: dict[Any, float]


class Fitting(Voting):
    """The fit of a booster to checked rows.

    The rows are one shard of all rows; a launcher sets `_comm`, the communicator with the others.
    """

    _comm: Communicator = SerialCommunicator()
    _codes: Any
    n_estimators: Any
    early_stopping: Any
    early_stopping_: bool
    _row_noise: LabelNoise | None = None
    validation_fraction: float
    n_iter_no_change: int
    tol: float
    scoring: Any
    target_error: float | None
    max_seconds: float | None
    warm_start: bool
    checkpoint: Any
    checkpoint_every: int
    resume: bool

    def _plan(self, rows: TrainingRows) -> tuple[Booster, Sources | None]:
        """Return the booster for these rows, and their data sources if each gets a certificate of its own."""
        raise NotImplementedError

    def _learner(self, X: Any, weights: RowWeights, threads: Threads) -> WeakLearner:
        raise NotImplementedError

    def _validation(
        self, X_val: Any, y_val: ArrayLike | None, sample_weight_val: ArrayLike | None
    ) -> Validation | None:
        raise NotImplementedError

    def _boosted(
        self,
        rows: TrainingRows,
        validation_data: tuple[Any, ArrayLike | None, ArrayLike | None],
        groups: ArrayLike | None,
        resume: dict[str, Any] | None,
        checkpoint: Checkpoint | None,
    ) -> Self:
        began, random_state = time.perf_counter(), rows.random_state
        grouping = None
        if groups is not None:
            refuse_missing(groups, "groups", "groups")
            grouping = rows.of_kept(groups, "groups")
        self.classes_ = rows.classes
        self._noise = self._row_noise = rows.weights.noise
        self.flip_rates_ = self._rates_used()
        for of_last in ("_training", "_suspected"):
            self.__dict__.pop(of_last, None)
        if rows.comm.size == 1 and rows.table.in_memory and len(rows.y) <= _KEPT_ROWS:
            self._training = rows
        validation = self._validation(*validation_data)
        stored = checkpoint.read() if checkpoint and not resume else None
        self.early_stopping_ = self._stops_early(rows, validation)
        self._most_rounds = self._rounds_asked()
        if validation is None and self.early_stopping_ and len(rows.classes) > 1:
            seed = resume["seed"] if resume else stored.seed if stored else None
            if seed is None:
                seed = int(random_state.randint(2**31 - 1))
            rows, validation = self._held_out(rows, grouping, seed)
        self._begin(rows)
        booster, sources = self._plan(rows)
        if len(self.classes_) == 1:
            return self._finish_constant(rows, sources)
        run = self._new_run(booster, rows, validation, sources.groups if sources else None)
        self._warn_of_rare(run.search.producer.rare)
        self.certificate_ = self._first_certificate(run, sources)
        if self.warm_start:
            self._continue(run, rows, resume)
        if checkpoint is not None:
            checkpoint.begin(self, run, rows, stored)
        reason, whole = self._run(
            run,
            self._stops(began),
            Score.of(self.scoring, self, run, rows.classes),
            Tasks(self, self._most_rounds, rows),
            checkpoint or (lambda last: None),
        )
        if self.warm_start and whole:
            self._resume = {
                "fingerprints": self.__dict__.pop("_fingerprints"),
                "run": run.snapshot(),
                "ensemble": self.ensemble_.first(len(self.ensemble_)),
                "history": self.history_,
                "seed": self.__dict__.get("_seed"),
            }
        over = run.ended is not None
        self._finish(run, rows, reason)
        warn_of_limits(self.certificate_, run.densities_by_group, over, stacklevel=6)
        return self

    def _stops_early(self, rows: TrainingRows, validation: Validation | None) -> bool:
        """Return whether these rows are stopped early, from the parameter `early_stopping`."""
        if self.early_stopping != "auto":
            return bool(self.early_stopping)
        return validation is not None or (
            counted_rows(rows.weights.counted, rows.comm) >= _MANY_ROWS
        )

    def _rounds_asked(self) -> int:
        if self.n_estimators != "auto":
            return int(self.n_estimators)
        return _ROUNDS_UNTIL_STOPPED if self.early_stopping_ else _ROUNDS

    def _warn_of_rare(self, rare: dict[int, Array]) -> None:
        """Warn if rare categories share a bin."""
        if rare:  # only the library's own trees have bins
            max_bins = int(self._default_estimator().max_bins)
            warn_of_rare(self._named_categories(rare), max_bins, stacklevel=7)

    def _checkpoint(self) -> Checkpoint | None:
        """Return the file in which this fit saves its state, if there is one."""
        if self.checkpoint is None and not self.resume:
            return None
        from maboost.io.checkpoint import Checkpoint

        return Checkpoint.of(self)

    def _new_run(
        self,
        booster: Booster,
        rows: TrainingRows,
        validation: Validation | None,
        groups: Groups | None = None,
    ) -> Run:
        game = Game(rows.labels, len(rows.classes))
        threads = Threads(available_threads(self.n_jobs))
        measure = BaseMeasure(rows.weights.scaled, game.width, rows.comm, threads)
        learner = self._learner(rows.X, rows.weights, threads)
        if isinstance(learner, TreeLearner):
            display().phase("binning")
        hashed = booster.trim.samples or booster.refits
        row_hashes = rows.table.row_hashes(seed=0) if hashed else None
        return Run(
            booster, learner, rows.X, game, rows.weights.shown, measure, rows.random_state,
            validation, groups, row_hashes,
        )  # fmt: skip

    def _held_out(
        self, rows: TrainingRows, groups: NDArray[Any] | None, seed: int
    ) -> tuple[TrainingRows, Validation]:
        """Return the training rows and the validation rows."""
        fraction = float(self.validation_fraction)
        classes = len(rows.classes)
        out = np.zeros(len(rows.labels), dtype=bool)
        of = self._trusted(rows)  # validation rows come from trusted sources, if there are any
        some = rows.where(of)
        its = None if groups is None else groups[of]
        out[of] = held_out(
            some.X, rows.labels[of], classes, some.weights.scaled, fraction, seed, its, rows.comm
        )
        held, left = global_count(int(out.sum()), rows.comm), classes_among(rows, ~out)
        if not held or left < classes:
            raise ParameterError(
                Advice("early_stopping", "early_stopping with "),
                Setting("validation_fraction", fraction),
                f" holds out {held} of {rows.count} rows and leaves {left} of {classes} classes to train on; ",
                Advice("hold-out", "give X_val and y_val, or another fraction or grouping"),
            )
        self._seed = seed
        return rows.where(~out), self._as_validation(rows.where(out))

    def _trusted(self, rows: TrainingRows) -> NDArray[np.bool_]:
        """Return the rows of trusted sources; all rows if no source is trusted more than others."""
        noise, sources = rows.weights.noise, rows.weights.sources
        if noise is None or sources is None or not noise.trusted.any():
            return np.ones(len(rows.labels), dtype=bool)
        return noise.trusted[sources]

    def _rates_used(self) -> Any:
        """Return the rates for the attribute `flip_rates_`."""
        return None if self._row_noise is None else self._row_noise.rates_used

    def _noise_of_validation(self) -> LabelNoise | None:
        """Return the noise of validation rows; those of trusted sources have correct labels."""
        noise = self._row_noise
        if noise is None or len(noise.rates) == 1:
            return noise
        return noise.of_right_labels() if noise.trusted.any() else noise

    def _as_validation(self, rows: TrainingRows) -> Validation:
        """Return held-out rows as validation rows."""
        labels = np.searchsorted(self.classes_, rows.y)
        base = rows.weights.scaled / reproducible_sum(rows.weights.scaled, rows.comm)
        return Validation(rows.X, Game(labels, len(self.classes_)), base)

    def _begin(self, rows: TrainingRows) -> None:
        """Set the state of a model without any hypothesis, which predicts the heaviest class."""
        totals = sums_by_code(rows.labels, rows.weights.scaled, len(rows.classes), rows.comm)
        self.ensemble_ = Ensemble(len(rows.classes), int(np.argmax(totals)))
        self.history_ = History()
        self.n_inert_rows_ = rows.weights.inert
        self.probability_scale_ = POPULATION_SCALE

    def _continue(self, run: Run, rows: TrainingRows, resume: dict[str, Any] | None) -> None:
        """Continue where the last fit ended, if there was one."""
        self._fingerprints: dict[str, Any] = {
            "rows": rows.fingerprint(),
            "booster": described(run.booster.ascent)
            + (f", {described(run.booster.step)}" if run.booster.refits else ""),
            "parameters": booster_parameters(self),
            "validation rows": rows.validation_fingerprint(run.validation),
            "scoring": described(self.scoring),
        }
        if resume is None:
            return
        old, new = resume["fingerprints"], self._fingerprints
        flips = [past["parameters"].get("flip_rates") for past in (old, new)]
        if old["rows"] != new["rows"] and flips[0] != flips[1]:
            raise ValueError(
                "warm_start=True continues with the weights of the last fit, but "
                f"{change_message('flip_rates', *flips)}; fit a clone, or set warm_start=False"
            )
        if old["rows"] != new["rows"]:
            raise ValueError(
                "warm_start=True continues with the rows of the last fit, but X, y, the weights, the sources "
                "or the rows held out have changed; fit a clone, or set warm_start=False"
            )
        if old["booster"] != new["booster"]:
            what = parameter_changes(old.get("parameters", {}), new["parameters"])
            what = what or change_message("it", old["booster"], new["booster"])
            raise ValueError(
                f"warm_start=True continues with the booster of the last fit, but {what}; fit a clone, or set "
                "warm_start=False"
            )
        # the finished rounds have scores for these validation rows and this scoring only
        if run.validation is not None and old["validation rows"] != new["validation rows"]:
            raise ValueError(
                "warm_start=True continues with the validation rows of the last fit, but X_val, y_val or "
                "sample_weight_val have changed or were absent; fit a clone, or set warm_start=False"
            )
        if run.validation is not None and old["scoring"] != new["scoring"]:
            raise ValueError(
                "warm_start=True continues with the score of the last fit, but scoring was "
                f"{old['scoring']} and is now {new['scoring']}; fit a clone, or set warm_start=False"
            )
        done = len(resume["ensemble"])
        if self._most_rounds < done:
            raise ValueError(
                f"n_estimators={self._most_rounds} is less than the {done} rounds already done; with "
                "warm_start=True it is the total number of rounds"
            )
        run.restore(resume["run"])
        self.ensemble_ = resume["ensemble"].first(done)
        self.history_ = History(resume["history"].records, resume["history"].group_errors)

    def _stops(self, began: float, certified_only: bool = False) -> list[Stop]:
        stops: list[Stop] = []
        if self.target_error is not None:
            stops.append(TargetError(float(self.target_error), certified_only))
        if self.early_stopping_:
            stops.append(NoImprovement(self.n_iter_no_change, float(self.tol)))
        stopped = [reason for record in self.history_ for s in stops if (reason := s(record))]
        if stopped:  # a resumed fit may meet its stopping rule before any round
            return [lambda record: stopped[0]]
        if self.max_seconds is not None:
            stops.append(MaxSeconds(self.max_seconds, began, self._comm))
        return stops

    def _run(
        self,
        rounds: Rounds,
        stops: list[Stop],
        score: Callable[[Round], float],
        tasks: Tasks,
        keep: Callable[[bool], None],
    ) -> tuple[str, bool]:
        """Run all rounds, each followed by `keep`; return why they ended, and whether the last was complete.

        If it was not, the run is ahead of the model, and no fit can continue from there.
        """
        last = self.history_.records[-1:]
        reason = self._reason_to_stop(last[0], stops) if last else None
        interrupts, whole = Interrupts(), True
        shown = display()
        shown.rounds(len(self.history_), self._most_rounds)
        with interrupts.deferred():
            try:
                while reason is None:
                    round = next(rounds, None)
                    if round is None:
                        reason = str(rounds.ended)
                        keep(True)
                        break
                    record = replace(round.record, val_score=score(round))
                    self.ensemble_.advance(replace(round, record=record))
                    self.history_.append(record, round.group_errors)
                    shown.round(record, self._most_rounds)
                    reason = self._reason_to_stop(record, stops)
                    if tasks.round(self._so_far):
                        reason = reason or "a callback asked to stop"
                    keep(reason is not None or interrupts.asked)
                    if interrupts.asked:
                        reason = "interrupted"
            except KeyboardInterrupt:  # a second one, which does not wait for the end of the round
                if not (self.history_.records and interrupts.leave_rounds):
                    raise
                self.ensemble_ = self.ensemble_.first(len(self.history_))
                reason, whole = "interrupted", False
        tasks.close(self._so_far)
        return reason, whole

    def _reason_to_stop(self, record: Record, stops: list[Stop]) -> str | None:
        reasons = [reason for stop in stops if (reason := stop(record))]
        if not reasons and record.round >= self._most_rounds:
            reasons = [rounds_done(self._most_rounds)]
        return reasons[0] if reasons else None

    def _so_far(self) -> dict[str, Any]:
        """Return the attributes of a model with the finished rounds, for scikit-learn's callbacks."""
        fitted = {k: v for k, v in vars(self).items() if k.endswith("_") and not k.startswith("_")}
        return fitted | {
            "ensemble_": self.ensemble_.first(len(self.ensemble_)),
            "_codes": self._codes,
            "_noise": self._noise,
        }

    def _finish(self, run: Run, rows: TrainingRows, reason: str) -> None:
        display().phase("calibrating probabilities")
        run.close()
        done = self.best_iteration_ = len(self.ensemble_)
        if reason == "interrupted":
            warnings.warn(
                f"interrupted: the model has the {done} rounds that were done",
                UserWarning,
                stacklevel=6,
            )
        if run.validation is not None and done:
            self.best_iteration_ = best_round(self.history_["val_score"])
        self.n_iter_ = self.best_iteration_ if self.early_stopping_ else done
        self.ensemble_ = self.ensemble_.first(self.n_iter_).voting()
        self._keep_rows(run, rows)
        self.probability_scale_ = self._fitted_scale(run)
        if self.n_iter_ < done:
            reason = f"{reason}; the best of {done} is kept"
        self.certificate_ = replace(
            self.certificate_.upto(self.history_.upto(self.n_iter_), reason),
            exact=run.exact and done > 0,
        )
        if not self.ensemble_:
            warnings.warn(
                f"no hypothesis was found ({reason}): the model predicts the heaviest class, "
                f"{self.classes_.tolist()[self.ensemble_.heaviest]!r}",
                UserWarning,
                stacklevel=6,
            )

    def _keep_rows(self, run: Run, rows: TrainingRows) -> None:
        """Keep the evidence about every training row, and the rows."""
        self._distribution = np.zeros(len(rows.weights.kept))
        if run.state.mass > 0.0:
            share = run.measure.rows_base * run.measure.row_means(run.state.density)
            share /= run.state.mass
            self._distribution[rows.weights.kept] = share
            del share
        self._evidence = Evidence.of(run, rows.weights.kept)

    def _suspicion(self, rows: TrainingRows, folds: int) -> Suspicion | None:
        known = self.__dict__.get("_suspected")
        if known is None or known.folds != folds:
            stages = cross_fitted_votes(self, rows, folds) if self.ensemble_ else None
            if stages is None:
                return None
            known = self._suspected = self._judged(stages, rows, folds)
        return known

    def _judged(self, stages: list[Array], rows: TrainingRows, folds: int) -> Suspicion:
        """Return the suspicion from out-of-sample votes, after the number of rounds that explains the labels best."""
        noise, sources = self._row_noise, rows.weights.sources
        rates = np.eye(len(self.classes_))[None] if noise is None else noise.rates
        of = np.zeros(len(rows.labels), dtype=np.intp) if sources is None else sources
        measure = BaseMeasure(rows.weights.counted, comm=rows.comm)
        best = min(
            (calibrated(votes, rows.labels, rates, of, measure) for votes in stages),
            key=lambda found: found.loss,
        )
        p = best.probabilities
        if noise is None:
            return Suspicion.without_rates(p, rows.labels, folds)
        predicted = p.argmax(axis=1)
        if len(self.classes_) == 2:
            predicted = (best.votes > 0.0).astype(np.intp)
        return Suspicion.of(p, predicted, rows.labels, noise, sources, folds)

    def _for_fold(self) -> Any:
        """Return a clone for a part of the rows, with as many rounds and without side effects."""
        model = clone(self).set_params(
            n_estimators=max(self.n_iter_, 1), early_stopping=False, warm_start=False, checkpoint=None,
            resume=False, target_error=None, max_seconds=None, random_state=0, verbose=0, **self._found(),
        )  # fmt: skip
        vars(model).pop(
            "_skl_callbacks", None
        )  # clone keeps the callbacks, but these rounds are not the user's
        kept = ("_codes", "n_features_in_", "feature_names_in_", "_source_names")
        vars(model).update({name: vars(self)[name] for name in kept if name in vars(self)})
        return model

    def _found(self) -> dict[str, Any]:
        """Return the values of parameters that the fit chose."""
        return {}

    def _fitted_scale(self, run: Run) -> float:
        """Return the scale of the probabilities, from the validation rows or else from the training rows.

        Votes fit the training labels better than others, so on these rows a share of every label counts as another class.
        """
        if not self.ensemble_:
            return POPULATION_SCALE
        validation = run.validation
        if validation is None:
            by_row = run.margins.reshape(run.measure.rows, run.game.width)
            rows = run.measure.of_rows
            expected = self._error_to_expect()
            if self._noise is not None:
                expected = max(expected, self._noise.weighted_error(UNSEEN_ERROR))
            smoothing = training_smoothing(by_row, rows, expected)
            return probability_scale(by_row, rows, smoothing)
        self._noise = self._noise_of_validation()
        margins = validation.game.margins(self._votes(validation.X))
        by_row = margins.reshape(len(validation.base), validation.game.width)
        return probability_scale(
            by_row, BaseMeasure(validation.base, comm=self._comm), VALIDATION_SMOOTHING
        )

    def _error_to_expect(self) -> float:
        """Return the expected error on new rows."""
        return UNSEEN_ERROR

    def _first_certificate(self, run: Run, sources: Sources | None) -> Certificate:
        """Return the certificate before any round."""
        ascent, groups = run.booster.ascent, {}
        if sources is not None:
            for name, share in sources.groups.shares(run.measure).items():
                limit, mass = sources.limits[name], sources.masses.get(name)
                bound = run.bound.of_group(0.0, share, limit, mass)
                groups[name] = GroupBound(share, limit, bound, 1.0, mass)
        return Certificate(
            regularizer=type(ascent.regularizer).__name__,
            domain=type(ascent.domain).__name__,
            update=ascent.update,
            rounds=0,
            gain=0.0,
            error_bound=run.bound(0.0),
            measured_error=1.0,
            margin_bound=float("-inf"),
            soft_margin=0.0,
            min_margin=0.0,
            best_margin_bound=1.0,
            exact=True,
            floor=run.bound.floor,
            stopped="",
            n_classes=run.game.n_classes,
            inert_rows=self.n_inert_rows_,
            groups=groups,
            bound=run.bound,
            given_labels=self._row_noise is not None,
        )

    def _finish_constant(self, rows: TrainingRows, sources: Sources | None) -> Self:
        """Finish the fit of rows with a single class, which needs no round."""
        self.n_iter_ = self.best_iteration_ = 0
        kept, measure = rows.weights.kept, BaseMeasure(rows.weights.scaled, comm=rows.comm)
        self._distribution = np.zeros(len(kept))
        self._distribution[kept] = measure.rows_base
        self._evidence = Evidence.of_one_class(kept)
        shares = {} if sources is None else sources.groups.shares(measure)
        limits = {} if sources is None else sources.limits
        groups = {n: GroupBound(share, limits[n], 0.0, 0.0) for n, share in shares.items()}
        self.certificate_ = Certificate(
            regularizer="none", domain="none", update="none", rounds=0, gain=0.0, error_bound=0.0,
            measured_error=0.0, margin_bound=0.0, soft_margin=0.0, min_margin=0.0,
            best_margin_bound=0.0, exact=True, floor=0.0, n_classes=1,
            stopped=f"y has one class only, {self.classes_.tolist()[0]!r}",
            inert_rows=self.n_inert_rows_, groups=groups,
        )  # fmt: skip
        return self


def rounds_done(count: int) -> str:
    """Return why a fit of all its rounds has stopped."""
    return f"n_estimators={count} rounds are done"
