"""Tests of the Python runtime: `python3 -m unittest discover -s python/tests -t python`. Standard library only.

A number in a test's name is that of the check in the docs/reference/python.md § 11.
"""
