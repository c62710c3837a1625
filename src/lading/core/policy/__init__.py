"""Rules of a site about who may use how much.

`fair_share`: the order between projects at equal priority.
"""
