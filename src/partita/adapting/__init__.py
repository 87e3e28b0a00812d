"""Planning anew for what was measured, in real and in simulated runs."""
