"""The version, where everybody may read it without importing the rest."""

VERSION = "0.1.0"
