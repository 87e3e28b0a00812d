"""What training separable networks costs, and what they are worth."""
