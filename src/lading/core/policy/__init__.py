"""Rules of a site about who may use how much.

`quotas`: limits, and whether a request has room in those that concern it; `budgets`: their money.
`fair_share`: the order between projects at equal priority. `descriptions`: words that people see.
"""
