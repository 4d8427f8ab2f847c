"""Which statements of the program can have led to a finding.

``named`` is the door: it adds the decisions to findings. For each finding it takes two sides, and
asks ``code`` what can have decided between them.

- ``timeline`` lists the calls of a rank in the order of its program.
- ``habits`` says what a rank usually does after a call.
- ``endings`` says what a rank did if it made no further call.
- ``sides`` finds the last call that two sides had in common, and what each did next.
- ``frames`` reads the stacks of records.
- ``libraries`` adds the frames of libraries to the user's.
- ``agreements`` says which results were the same on both ranks.
- ``held`` compares what the names of a decision held on both ranks.
"""
