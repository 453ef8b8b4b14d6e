"""The checkpoint options of ``maboost train``."""

from __future__ import annotations

from typing import Any

from maboost.data.files import TableError

__all__ = ["check", "description", "parameters"]


def check(options: dict[str, Any]) -> None:
    """Refuse options that contradict each other."""
    path, every, resume = (options[o] for o in ("checkpoint", "checkpoint_every", "resume"))
    if path is None:
        if every is not None:
            raise TableError(f"--checkpoint-every {every} needs --checkpoint PATH")
        if resume is not None:
            flag = "--resume" if resume else "--no-resume"
            raise TableError(f"{flag} needs --checkpoint PATH")
        return
    if every is not None and every < 1:
        raise TableError(f"--checkpoint-every {every} is not a number of rounds: give 1 or more")


def parameters(options: dict[str, Any]) -> dict[str, Any]:
    """Return the parameters of the classifier. By default training continues from an existing checkpoint."""
    if options["checkpoint"] is None:
        return {}
    every = options["checkpoint_every"]
    found = {"checkpoint": options["checkpoint"], "resume": options["resume"] is not False}
    return found if every is None else found | {"checkpoint_every": every}


def description(options: dict[str, Any]) -> str:
    """Return a line for the user about the checkpoint and its future."""
    path = options["checkpoint"]
    if not path.exists():
        return f"{path} (new)"
    return f"{path} (replaced)" if options["resume"] is False else f"{path} (to go on from)"
