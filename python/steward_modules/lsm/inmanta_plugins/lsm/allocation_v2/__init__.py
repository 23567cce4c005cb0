"""Allocation of the second kind."""
