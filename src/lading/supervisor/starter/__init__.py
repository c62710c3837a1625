"""`lading-start`: its sources in C, the plans that it gets, and the containers that it runs."""
