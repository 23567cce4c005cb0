"""Changes to several instances that belong together."""
