"""dsh_lsp: a coding agent that lives in the user's own editor, served over LSP."""

__version__ = "0.1.0"
