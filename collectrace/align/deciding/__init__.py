"""Find the statements of the program that can have led to a finding.

Start reading at ``named``, which adds the decisions to findings. For each finding it picks two
sides and calls ``code`` to find what can have decided between them.

- ``timeline`` lists the calls of a rank in program order.
- ``habits`` finds what a rank usually does after a call.
- ``endings`` finds how a rank ended if it made no further call.
- ``sides`` finds the last call that both sides made, and what each did next.
- ``frames`` converts the stacks of records.
- ``libraries`` adds the frames of libraries to the user's.
- ``agreements`` finds which results were the same on both ranks.
- ``held`` compares the values that the names of a decision held on both ranks.
"""
