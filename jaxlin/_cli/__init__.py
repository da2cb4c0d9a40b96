"""The command line: what is fitted, and how it is shown."""
