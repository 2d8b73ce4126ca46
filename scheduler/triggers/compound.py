"""Combinations of triggers."""
