"""Where to cut a model into children: blocks, their measured costs, and the methods that choose."""
