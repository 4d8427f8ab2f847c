"""The lines of the program that matter for a finding, and what ranks did there.

``build`` is the door: it adds excerpts to findings. ``marks`` says what there is to note at which
line, by the calls, ends and waits of the ranks and by the decisions. ``iterations`` says in which
iteration of a loop ranks were, and ``stacks`` where ranks are that others wait for.
"""
