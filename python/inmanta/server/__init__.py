"""Names that modules import from the server."""
