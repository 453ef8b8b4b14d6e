"""Where rows live: files on disk, whole or in batches."""

from maboost.data.stored import OnDisk

__all__ = ["OnDisk"]
