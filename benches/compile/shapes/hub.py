"""No plugin: one instance with all others in its relations."""
