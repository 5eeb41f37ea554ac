"""Mutants: small mistakes, put into linspec one at a time, each of which some test should notice."""
