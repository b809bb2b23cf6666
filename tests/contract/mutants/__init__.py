"""Mutants: small patches of the loop, each of which breaks one rule of `docs/loop.md`.

A patch is called after the lines that must notice it: `L024-drop-second-check-after-turn-stopping.patch`.
`python -m tests.contract.run_mutants` applies each to a copy of the package and expects a test to fail.
"""
