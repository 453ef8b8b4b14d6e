"""Choice of the rows that a learner sees in a round: all but the lightest, or a fixed or adaptive sample."""
