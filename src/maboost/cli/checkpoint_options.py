"""The checkpoint of ``maboost train``: its options."""

from __future__ import annotations

from typing import Any

from maboost.data.files import TableError

__all__ = ["check", "description", "parameters"]


def check(options: dict[str, Any]) -> None:
    """Refuse options that do not go together."""
    path, every, resume = (options[o] for o in ("checkpoint", "checkpoint_every", "resume"))
    if path is None:
        if every is not None:
            raise TableError(f"--checkpoint-every {every} needs --checkpoint PATH, to say where")
        if resume is not None:
            flag = "--resume" if resume else "--no-resume"
            raise TableError(f"{flag} needs --checkpoint PATH, to say which")
        return
    if every is not None and every < 1:
        raise TableError(f"--checkpoint-every {every} is no number of rounds: give 1 or more")


def parameters(options: dict[str, Any]) -> dict[str, Any]:
    """Of the classifier. Where nothing else is said, a checkpoint that is there is gone on from."""
    if options["checkpoint"] is None:
        return {}
    every = options["checkpoint_every"]
    found = {"checkpoint": options["checkpoint"], "resume": options["resume"] is not False}
    return found if every is None else found | {"checkpoint_every": every}


def description(options: dict[str, Any]) -> str:
    """The checkpoint, and what happens to it, for a person."""
    path = options["checkpoint"]
    if not path.exists():
        return f"{path} (new)"
    return f"{path} (replaced)" if options["resume"] is False else f"{path} (to go on from)"
