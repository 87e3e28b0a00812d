"""Writing bundles: child models, their weights, and the folder that appears all at once."""
