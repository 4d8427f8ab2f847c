"""Why the ranks of a run diverged: one file for each cause.

``rows.USED`` is the table of all causes. A row holds the code, the name, the kinds of finding
that the cause can explain, the facts that it needs, and the codes that take precedence. Its module,
such as ``ct102_skipped_by_condition``, holds the documentation in its docstring, and two functions:

- ``find(situation)`` returns typed data if the cause applies, else None. It reads no text.
- ``words(situation, found)`` turns the data into a headline, reasons and fixes.

``choose.cause_of`` tries the causes in an order that is computed from ``yields_to``. The causes
share the other modules here:

- ``situation`` holds what is known of a finding before its cause is.
- ``deciders`` ranks the statements that can have decided, and puts them into words.
- ``phrases`` names calls, ranks and lines the same way in every cause.
"""
