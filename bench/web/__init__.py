"""The page of a server with a million requests: time of the server and of a browser for each list,
bytes, how soon a row changes, memory of a thousand open pages.
"""
