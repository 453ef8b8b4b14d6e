"""Which rows the learner sees in a round: all but the lightest, or a sample of a fixed or adaptive size."""
