"""What a running model looks like from Python."""
