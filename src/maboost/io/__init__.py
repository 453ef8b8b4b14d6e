"""Files: model files, checkpoints, and exports to the formats of other libraries."""
