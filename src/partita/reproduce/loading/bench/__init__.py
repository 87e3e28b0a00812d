"""The rig of the loading experiments: variants of a model, and trials that load them."""
