"""Gangs: ranks of one container on several machines, and the directory that collects their
output.
"""
