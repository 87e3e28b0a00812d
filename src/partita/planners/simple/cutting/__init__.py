"""Dynamic programs over cuts of the network into ranges, each whole on one device."""
