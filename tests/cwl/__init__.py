"""Small CWL v1.2 cases of our own, run by `cwltest` with `arvados-cwl-runner` and with
`cwltool`.
"""
