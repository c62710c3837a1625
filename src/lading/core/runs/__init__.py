"""Runs: one execution of a pipeline as one record, with its attempts, steps, state and report."""
