"""What lies in a bundle: the manifest, its verification, and the engine's session of one child."""
