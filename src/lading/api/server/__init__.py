"""The parts that a server has for all its calls: clock, identifiers, blocks, states, reports,
wake-ups.
"""
