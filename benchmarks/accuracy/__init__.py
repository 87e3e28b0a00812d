"""What fewer bits cost in accuracy, on trained networks and photos that lie in packages."""
