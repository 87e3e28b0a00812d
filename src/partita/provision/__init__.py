"""Workers placed by what people already run: Kubernetes, systemd, ssh."""
