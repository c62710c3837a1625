"""Fakes, factories and a whole world in one process, for tests of this project and of drivers."""
