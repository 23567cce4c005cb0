"""Real names of the package that few processes ask for, or that need pydantic: each file belongs to a module (`_absent.MORE`)."""
