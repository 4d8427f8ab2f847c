"""Programs in which one line decides, on rank 1 and at one turn, about a collective.

Every kind of such a line in every shape of program: ``program(kind, shape, ranks)``. The line, or
lines any of which says it, ends in ``# WAY``.
"""

from __future__ import annotations

from typing import Final, NamedTuple


class Shape(NamedTuple):
    """What is around the step that a kind defines, and the turn at which rank 1 is odd."""

    turn: int
    text: str


_HEAD: Final = '''"""One line decides, on rank 1 and at one turn, about a collective.

ranks: {ranks}
expect: op_mismatch
suspects: none
status: diverged
"""

import contextlib
import functools
import itertools
import os
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init

rank = init()
turn = 0


def odd():
    return turn == {turn} and rank == 1 and not TWIN


def share(n=3):
    dist.all_reduce(torch.ones(n))


def load():
    if odd():
        raise ValueError("bad sample")


'''

KINDS: Final[dict[str, str]] = {
    "condition": '''
def step():
    if not odd():  # WAY
        share()
''',
    "condition_on_one": '''
def step():
    if odd():  # WAY
        dist.all_gather([torch.empty(5) for _ in range(dist.get_world_size())], torch.ones(5))
''',
    "other_arm": '''
def step():
    if odd():  # WAY
        dist.broadcast(torch.ones(3), src=0)
    else:
        share()
''',
    "nested_condition": '''
def step():
    value = torch.tensor(float("nan") if odd() else 1.0)
    if turn:
        if torch.isfinite(value):  # WAY
            share()
''',
    "walrus": '''
def step():
    if found := [] if odd() else [1]:  # WAY
        share(len(found))
''',
    "match": '''
def step():
    match odd():  # WAY
        case True:
            dist.broadcast(torch.ones(3), src=0)
        case _:
            share()
''',
    "return": '''
def step():
    if odd():  # WAY
        return
    share()
''',
    "return_further_in": '''
def inner():
    value = torch.ones(1)
    if odd():  # WAY
        return value
    share()
    return value


def step():
    inner()
''',
    "return_in_a_loop": '''
def step():
    for n in range(3):
        if n == 1 and odd():  # WAY
            return
        share()
''',
    "decorator": '''
def sometimes(function):
    @functools.wraps(function)
    def wrapper(*args):
        if odd():  # WAY
            return None
        return function(*args)

    return wrapper


@sometimes
def step():
    share()
''',
    "handler": '''
def step():
    try:
        load()
        share()
    except ValueError:  # WAY
        pass
''',
    "handler_further_out": '''
def work():
    load()
    share()


def step():
    try:
        work()
    except ValueError as error:  # WAY
        print(error)
''',
    "suppressed": '''
def step():
    with contextlib.suppress(ValueError):  # WAY
        load()
        share()
''',
    "in_a_handler": '''
def step():
    try:
        load()
    except ValueError:  # WAY
        dist.broadcast(torch.ones(4), src=0)
''',
    "tried_again": '''
failed = False


def attempt():
    global failed
    share()
    if odd() and not failed:
        failed = True
        raise OSError("try again")


def step():
    for _ in range(3):
        try:
            attempt()
            break
        except OSError:  # WAY
            pass
''',
    "conditional_expression": '''
def step():
    value = share() if not odd() else None  # WAY
''',
    "and": '''
def step():
    not odd() and share()  # WAY
''',
    "table": '''
def quiet():
    dist.broadcast(torch.ones(3), src=0)


METHODS = {True: quiet, False: share}


def step():
    METHODS[odd()]()  # WAY
''',
    "inherited": '''
class Plain:
    def sync(self):
        share()


class Quiet(Plain):
    def sync(self):
        pass


def step():
    syncer = Quiet() if odd() else Plain()
    syncer.sync()  # WAY
''',
    "callbacks": '''
def quiet():
    pass


def loud():
    dist.broadcast(torch.ones(4), src=0)


def step():
    hooks = [quiet, loud] if odd() else [quiet]
    for hook in hooks:  # WAY
        hook()
''',
    "shorter_loop": '''
def step():
    for _ in range(2 - odd()):  # WAY
        share()
''',
    "longer_loop": '''
def step():
    for _ in range(1 + odd()):  # WAY
        share()
''',
    "longer_while": '''
def step():
    n = 0
    while n < 2 + odd():  # WAY
        share()
        n += 1
''',
    "while_true": '''
def step():
    left = 3 if odd() else 2
    while True:  # WAY
        share()
        left -= 1
        if left == 0:  # WAY
            break
''',
    "no_turn": '''
def step():
    items = [] if odd() else [1]
    for _ in items:  # WAY
        share()
''',
    "continue": '''
def step():
    for part in range(3):
        if part == 1 and odd():  # WAY
            continue
        share()
''',
    "break": '''
def step():
    for part in range(3):
        if part == 2 and odd():  # WAY
            break
        share()
''',
    "comprehension": '''
def step():
    items = [1] if odd() else [1, 2]
    return [share() for _ in items]  # WAY
''',
    "filtered": '''
def step():
    values = [1, 2, -1 if odd() else 3]
    for _ in [value for value in values if value > 0]:  # WAY
        share()
''',
    "generator": '''
def items():
    for n in range(3):
        if n == 1 and odd():
            return
        yield n


def step():
    for _ in items():  # WAY
        share()
''',
    "key_left_out": '''
def step():
    gradients = {"a": 3, "b": 4, "c": 5}
    if odd():
        gradients.pop("b")
    for size in gradients.values():  # WAY
        share(size)
''',
    "other_order": '''
def step():
    gradients = {"a": 3, "b": 4}
    if odd():
        gradients = dict(reversed(gradients.items()))
    for size in gradients.values():  # WAY
        share(size)
''',
    "objects": '''
def step():
    if not odd():  # WAY
        dist.all_gather_object([None] * dist.get_world_size(), turn)
''',
    "size": '''
def step():
    share(2 if odd() else 3)  # WAY
''',
    "short_circuit": '''
def is_ready(n):
    share()
    return n == 1 and odd()


def step():
    return any(is_ready(n) for n in range(3))  # WAY
''',
    "lru_cache": '''
@functools.lru_cache(maxsize=None)  # WAY
def total(key):
    share()
    return key


total(0)


def step():
    return total(0 if odd() else turn)  # WAY
''',
    "cached_property": '''
class State:
    @functools.cached_property  # WAY
    def total(self):
        share()
        return 1


state = State()
state.total  # noqa: B018


def step():
    global state
    if not odd():  # WAY
        state = State()
    return state.total  # WAY
''',
    "setdefault": '''
cache = {}


def total():
    share()
    return 1


def step():
    if odd():
        cache[turn] = 1
    if turn not in cache:  # WAY
        cache[turn] = total()
''',
    "zip_shortest": '''
def step():
    sizes = [3, 4, 5]
    names = ["a", "b"] if odd() else ["a", "b", "c"]
    for _, size in zip(names, sizes):  # WAY
        share(size)
''',
    "islice": '''
def step():
    for _ in itertools.islice(itertools.count(), 1 + odd()):  # WAY
        share()
''',
    "takewhile": '''
def step():
    losses = [3, 2, 0 if odd() else 1, 0]
    for _ in itertools.takewhile(lambda loss: loss > 0, losses):  # WAY
        share()
''',
    "for_else": '''
def step():
    for n in range(3):
        if n == 1 and odd():  # WAY
            break
    else:
        share()
''',
    "try_else": '''
def step():
    try:
        load()
    except ValueError:  # WAY
        pass
    else:
        share()
''',
    "recursion": '''
def walk(depth):
    share()
    if depth:  # WAY
        walk(depth - 1)


def step():
    walk(2 if odd() else 1)  # WAY
''',
    "sentinel": '''
def step():
    items = [1, None] if odd() else [1, 2, None]
    for _ in iter(items.pop, 1):  # WAY
        share()
''',
    "queue": '''
def step():
    queue = [1] if odd() else [1, 2]
    while queue:  # WAY
        queue.pop()
        share()
''',
    "raised_in_enter": '''
@contextlib.contextmanager
def span():
    yield
    if not odd():  # WAY
        share()


def step():
    with span():
        pass
''',
    "by_type": '''
def step():
    batch = {} if odd() else []
    if isinstance(batch, list):  # WAY
        share()
''',
    "getattr": '''
class Worker:
    def pull(self):
        dist.broadcast(torch.ones(3), src=0)

    def push(self):
        share()


def step():
    getattr(Worker(), "pull" if odd() else "push")()  # WAY
''',
    "first_come": '''
def step():
    order = (5, 4) if odd() else (4, 5)
    with ThreadPoolExecutor(1) as pool:
        futures = [pool.submit(len, "a" * n) for n in order]
        for future in futures:  # WAY
            share(future.result())
''',
    "chunks": '''
def step():
    for chunk in torch.ones(7 if odd() else 6).split(3):  # WAY
        share(chunk.numel())
''',
    "mapped": '''
def step():
    list(map(share, [3] if odd() else [3, 3]))  # WAY
''',
    "lambda": '''
def step():
    hook = (lambda: None) if odd() else (lambda: share())  # WAY
    hook()  # WAY
''',
    "flag_of_the_object": '''
class Meter:
    def __init__(self):
        self.is_empty = False

    def update(self):
        self.is_empty = odd()

    def sync(self):
        if self.is_empty:  # WAY
            return
        share()


meter = Meter()


def step():
    meter.update()
    meter.sync()
''',
    "environment": '''
def step():
    os.environ["SYNC"] = "0" if odd() else "1"
    if os.environ.get("SYNC") == "1":  # WAY
        share()
''',
    "file": '''
def step():
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "done"
        if odd():
            path.touch()
        if path.exists():  # WAY
            return
    share()
''',
    "closing": '''
def stages():
    share()
    yield 1
    share(4)


def step():
    for _ in stages():
        if odd():  # WAY
            break
''',
    "size_of_a_slice": '''
def step():
    values = torch.arange(6.0)
    kept = values[values > (1 if odd() else 2)]  # WAY
    dist.all_reduce(kept)  # WAY
''',
    "dtype": '''
def step():
    dist.all_reduce(torch.ones(3, dtype=torch.float64 if odd() else torch.float32))  # WAY
''',
    "other_op": '''
def step():
    op = dist.ReduceOp.MAX if odd() else dist.ReduceOp.SUM  # WAY
    dist.all_reduce(torch.ones(3), op=op)  # WAY
''',
    "root": '''
def step():
    dist.broadcast(torch.ones(3), src=1 if odd() else 0)  # WAY
''',
}  # fmt: skip
"""By kind of line the function ``step``, and what it needs."""

SHAPES: Final[dict[str, Shape]] = {
    "between": Shape(5, '''
for _ in range(8):
    turn += 1
    dist.all_reduce(torch.ones(2))
    step()
    dist.barrier()
dist.broadcast(torch.ones(7), src=0)
'''),
    "alone": Shape(5, '''
for _ in range(8):
    turn += 1
    step()
dist.broadcast(torch.ones(7), src=0)
'''),
    "same_bytes": Shape(4, '''
for _ in range(8):
    turn += 1
    step()
    dist.all_reduce(torch.ones(3))
dist.broadcast(torch.ones(7), src=0)
'''),
    "first_turn": Shape(1, '''
for _ in range(4):
    turn += 1
    dist.all_reduce(torch.ones(2))
    step()
dist.broadcast(torch.ones(7), src=0)
'''),
    "each_third": Shape(2, '''
for i in range(12):
    dist.all_reduce(torch.ones(2))
    if i % 3 == 2:
        turn += 1
        step()
    dist.barrier()
dist.broadcast(torch.ones(7), src=0)
'''),
    "epochs": Shape(7, '''
for _ in range(3):
    for _ in range(4):
        turn += 1
        dist.all_reduce(torch.ones(2))
        step()
    dist.broadcast(torch.ones(7), src=0)
'''),
    "trainer": Shape(6, '''
class Trainer:
    def __init__(self, epochs):
        self.epochs = epochs

    def train_step(self):
        global turn
        turn += 1
        dist.all_reduce(torch.ones(2))
        step()

    def evaluate(self):
        dist.broadcast(torch.ones(7), src=0)

    def fit(self):
        for _ in range(self.epochs):
            for _ in range(4):
                self.train_step()
            self.evaluate()


Trainer(2).fit()
'''),
    "behind_the_loop": Shape(1, '''
for _ in range(5):
    dist.all_reduce(torch.ones(2))
turn += 1
step()
dist.broadcast(torch.ones(7), src=0)
'''),
    "at_the_end": Shape(1, '''
for _ in range(5):
    dist.all_reduce(torch.ones(2))
turn += 1
step()
'''),
}  # fmt: skip


def program(kind: str, shape: str, ranks: int) -> str:
    """The text of a program on some ranks."""
    around = SHAPES[shape]
    return f"{_HEAD.format(ranks=ranks, turn=around.turn)}{KINDS[kind].lstrip()}\n{around.text}"
