"""Workspace: texts, edits and the seams to files and editors; no editor is known here."""
