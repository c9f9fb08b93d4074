"""Cost and failure views of span files: in the terminal, as an HTML page, as JSON, and one Call as a tree."""
