"""Boosting: the loop, its certificates, and the named boosters as recipes."""

from maboost.boosting.booster import Booster, L1Rule
from maboost.boosting.certificate import Certificate, ErrorBound, GroupBound, MarginBound
from maboost.boosting.game import Game, Validation
from maboost.boosting.groups import Groups
from maboost.boosting.history import History, Record, Round
from maboost.boosting.loop import Run
from maboost.boosting.recipes import combined, maboost, madaboost, smooth, softmargin, sparseboost
from maboost.boosting.row_sampling.adaptive import Certain
from maboost.boosting.row_sampling.budget import Budget
from maboost.boosting.row_sampling.policy import Showing
from maboost.boosting.row_sampling.trim import Trim
from maboost.boosting.row_sampling.uniform import Uniform
from maboost.boosting.votes_certificate import VotesCertificate, certificate_of

__all__ = [
    "Booster",
    "Budget",
    "Certain",
    "Certificate",
    "ErrorBound",
    "Game",
    "GroupBound",
    "Groups",
    "History",
    "L1Rule",
    "MarginBound",
    "Record",
    "Round",
    "Run",
    "Showing",
    "Trim",
    "Uniform",
    "Validation",
    "VotesCertificate",
    "certificate_of",
    "combined",
    "maboost",
    "madaboost",
    "smooth",
    "softmargin",
    "sparseboost",
]


def __dir__() -> list[str]:
    return __all__
