"""Rules of a site about who may use how much, and who may enter whose containers.

`quotas`: limits, and whether a request has room in those that concern it; `budgets`: their money.
`fair_share`: the order between projects at equal priority. `entering`: sessions and ports.
`descriptions`: words that people see.
"""
