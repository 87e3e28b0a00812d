"""Personalisation: the last child of a bundle is trained on its user's own samples."""
