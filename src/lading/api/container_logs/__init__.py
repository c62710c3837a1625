"""Logs of containers: the spool of live logs, saved log files, and streams of both."""
