"""Why an instance is where it is."""
