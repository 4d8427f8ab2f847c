"""Which statements of the program can have led to a finding.

``named`` is the door: it adds the decisions to findings. For each finding it takes two ranks, one
of either side.

- ``timeline`` lists the calls of a rank in the order of its program.
- ``endings`` says what a rank did if it made no further call.
- ``sides`` finds the last call that both ranks had in common, and what each did next.
- ``texts`` gives the program as it was recorded.
- ``agreements`` says which results were the same on both ranks.
"""
