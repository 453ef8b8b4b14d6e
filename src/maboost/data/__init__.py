"""Where rows live: files on disk."""
