"""Tables 1 to 3 of the paper on reinforcement-learned modularization for fast loading."""
