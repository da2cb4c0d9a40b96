"""How files of text are read, whole or block by block."""
