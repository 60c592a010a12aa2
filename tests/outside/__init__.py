"""Nets that draw their cases at random, as the outside world does: another seed every day."""
