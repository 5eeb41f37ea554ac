"""Mutants: small mistakes, put into linspec one at a time, which some test should notice."""
