"""The executor's side: handlers and their cache."""
