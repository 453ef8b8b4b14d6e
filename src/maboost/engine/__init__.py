"""Mirror ascent over the rows of one shard, compiled and parallel: an engine for each geometry."""

from maboost.engine.dispatch import engine_for, project

__all__ = ["engine_for", "project"]
