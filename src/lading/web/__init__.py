"""The page: what runs, why it waits and what it made, in a browser, below `/ui/`.

The page is a client of the API like any other. Each view calls the API with the token of its
reader, and has no rights and no SQL of its own. Start with `app`, which finds the handler of an
address. `visit` is the argument of a handler, `sessions` keeps logins, `browser_rules` holds the
headers and the checks against other sites. `requests` has the pages of requests, `data` those of
projects and collections. `templates/` has the HTML, `static/` the style and the scripts.
"""
