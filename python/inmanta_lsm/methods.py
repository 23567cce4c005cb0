"""The methods of the lifecycle service manager; clients know them without this module, which tools import for that."""
