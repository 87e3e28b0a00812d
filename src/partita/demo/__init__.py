"""Reading number plates with a divided network: the whole of Partita on one photo."""
