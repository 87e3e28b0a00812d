"""Whether a divided network answers as the whole one does."""
