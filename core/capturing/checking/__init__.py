"""The check-up of a model on this machine."""
