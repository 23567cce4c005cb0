"""The lifecycle service manager, for Python code of modules and of their tests.

`const` has names, `model` the records of catalog and inventory (it needs pydantic). Source: docs/reference/lsm.md § 2.11.
"""
