"""Plans as planners search them: a few numbers per stage, over an order of layers."""
