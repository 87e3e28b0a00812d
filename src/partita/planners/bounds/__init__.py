"""Latencies that no plan falls below."""
