"""GA4GH WES 1.1: runs of CWL workflows as container requests.

Start with `document`, the checks of a run; `mapping` makes a container request of it, `views` show
a request as a run, `listing` has the filters of its lists.
"""
