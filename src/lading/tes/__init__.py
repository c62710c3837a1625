"""GA4GH front ends, which are clients of the API: tasks (TES 1.1) and runs of workflows (WES 1.1).

`app` and `wes_app` are the ASGI applications, `tasks` and `runs` have their operations, `exchange`
the HTTP that both share. The rules are in `core.tes` and `core.wes`.
"""
