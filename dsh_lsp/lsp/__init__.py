"""LSP: the server, its transport, and the editor's documents, reviews and events."""
