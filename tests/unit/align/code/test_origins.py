"""What a condition depends on: every row of the table, and how values are followed to it."""

from __future__ import annotations

import ast
import textwrap

import pytest

from collectrace.align.code import origins
from collectrace.align.code.conditions import condition_of
from collectrace.align.code.files import Files
from collectrace.align.code.origins import Origin, Rule
from collectrace.align.code.places import Agreements, Asked, Place, Site
from collectrace.align.code.program import Program
from collectrace.align.code.slices import Tracer
from tests.unit.align.code import standin
from tests.unit.align.code.standin import Texts

PATH = "/origins/program.py"


class All(Agreements):
    """Every collective gave both sides one result."""

    def agreed(self, site: Site) -> bool:
        return True


def origins_of(
    text: str, agreements: Agreements | None = None, asked: Asked = Asked.VALUE,
    *, same_arguments: bool = False,
) -> tuple[Origin, ...]:  # fmt: skip
    """What the condition in the line depends on that ends in ``# HERE``."""
    line = next(n for n, one in enumerate(text.split("\n"), 1) if one.endswith("# HERE"))
    program = Program(Files(Texts(**{PATH: text})), same_arguments=same_arguments)
    function, graph = standin.graph_at(program, PATH, line)
    tracer = Tracer(program, agreements or Agreements())
    found: set[Origin] = set()
    for node in graph.at(line):
        if (condition := condition_of(node)) is not None:
            sources = tracer.sources(condition, Place(function, node), asked)
            found.update(one.origin for one in sources)
    return origins.sorted_by_weight(found)


def test_every_name_finds_its_row() -> None:
    for row in origins.rows():
        assert row.where
        for name in row.names.split():
            asked = f"thing{name}" if name.startswith(".") else name.replace("*", "anything")
            called = asked.removesuffix("()")
            assert origins.row_of(called) is row, name
            if called != asked:  # ``cfg.dim`` is no ``x.dim()``
                assert origins.row_of(called, is_called=False) is None, name


def test_a_constructor_of_tensors_is_no_question_to_a_queue() -> None:
    assert origins.row_of("torch.empty") is None
    queue = origins.row_of("tasks.empty")
    assert queue is not None
    assert queue.origin is Origin.RECEIVED


@pytest.mark.parametrize("origin", [one for one in Origin if one is not Origin.UNKNOWN])
def test_every_origin_has_a_row_or_a_rule_of_its_own(origin: Origin) -> None:
    by_rule = (Origin.EXCEPTION, Origin.STATE, Origin.CHOSEN)
    assert origin in by_rule or any(row.origin is origin for row in origins.rows())


def test_results_are_agreed_only_where_the_collective_was() -> None:
    assert {row.origin for row in origins.rows() if row.rule is Rule.RESULT} == {Origin.AGREED}


CASES = {
    "constant": ("if 1 < 2:  # HERE\n    pass", Origin.AGREED),
    "constant loop": ("for i in range(3):  # HERE\n    pass", Origin.AGREED),
    "item of a constant loop": (
        "for i in range(9):\n    if i % 3 == 2:  # HERE\n        pass", Origin.AGREED),
    "counter": ("n = 0\nwhile n < 3:  # HERE\n    n += 1", Origin.AGREED),
    "counter under a condition": (
        "import time\nn = 0\nwhile n < 3:  # HERE\n    if time.time() > 5:\n        n += 1",
        Origin.CLOCK),
    "unknown": ("if thing():  # HERE\n    pass", Origin.UNKNOWN),
    "clock": ("import time\nstop = time.time() > 5\nif stop:  # HERE\n    pass", Origin.CLOCK),
    "imported name": (
        "from time import monotonic as now\nif now() > 5:  # HERE\n    pass", Origin.CLOCK),
    "rank": (
        "import torch.distributed as dist\nrank = dist.get_rank()\nif rank == 0:  # HERE\n    pass",
        Origin.RANK),
    "chosen by the rank": (
        "size = 2 if rank == 0 else 4\nif size > 3:  # HERE\n    pass", Origin.CHOSEN),
    "computed from the rank": ("for n in range(2 + rank):  # HERE\n    pass", Origin.CHOSEN),
    "what an unknown function makes of a value that the rank chose": (
        "size = 2 if rank == 0 else 4\nif load(size):  # HERE\n    pass", Origin.DATA),
    "number of a batch": (
        """import torch
for n, batch in enumerate(torch.utils.data.DataLoader(rows)):
    if n % 3 == 2:  # HERE
        pass""", Origin.AGREED),
    "batch with a number": (
        """import torch
for n, batch in enumerate(torch.utils.data.DataLoader(rows)):
    if batch:  # HERE
        pass""", Origin.DATA),
    "next batch of a loader that the rank chose": (
        "batches = iter(shards[rank])\nif next(batches):  # HERE\n    pass", Origin.DATA),
    "rank of an object": ("if trainer.is_global_zero:  # HERE\n    pass", Origin.RANK),
    "parameter that is called rank": (
        "def f(rank):\n    if rank == 0:  # HERE\n        pass", Origin.RANK),
    "test of the rank that is alike": (
        "import os\nif args.rank >= 0:  # HERE\n    pass", Origin.AGREED),
    "random": ("import random\nif random.random() < 1:  # HERE\n    pass", Origin.RANDOM),
    "random numbers that an unknown function takes": (
        "import torch\nif model(torch.randn(4)) is None:  # HERE\n    pass", Origin.DATA),
    "files": ("import os\nif os.path.exists('a'):  # HERE\n    pass", Origin.FILES),
    "rank by an environment variable": (
        "import os\nrank = int(os.environ['RANK'])\nif rank == 0:  # HERE\n    pass", Origin.RANK,
    ),
    "rank by getenv": (
        "import os\nif os.getenv('LOCAL_RANK', '0') == '0':  # HERE\n    pass", Origin.RANK,
    ),
    "environment": ("import os\nif os.environ.get('A'):  # HERE\n    pass", Origin.ENVIRONMENT),
    "length": ("if len(batches) > 3:  # HERE\n    pass", Origin.LENGTH),
    "length of a constant": ("if len([1, 2]) > 3:  # HERE\n    pass", Origin.AGREED),
    "data": ("if loss.isnan():  # HERE\n    pass", Origin.DATA),
    "order of a set": ("for x in {'a', 'b'}:  # HERE\n    pass", Origin.ORDER),
    "membership in a set": ("if 1 in {1, 2}:  # HERE\n    pass", Origin.AGREED),
    "exception": (
        "try:\n    f()\nexcept OSError as e:\n    if e:  # HERE\n        pass", Origin.EXCEPTION),
    "result or nothing, after an exception": (
        ("def get():\n    try:\n        return f()\n    except OSError:\n        return None\n"
        "if get():  # HERE\n    pass"), Origin.EXCEPTION),
    "result of a block that is tried again": (
        ("def get():\n    for _ in range(3):\n        try:\n            f()\n"
        "            return [1]\n"
        "        except OSError:\n            g()\n    raise RuntimeError\n"
        "if get():  # HERE\n    pass"), Origin.AGREED),
    "result that leaves out what raised": (
        ("def get():\n    for x in (1, 2):\n        try:\n            f()\n"
        "        except OSError:\n            continue\n    return 1\n"
        "if get():  # HERE\n    pass"), Origin.EXCEPTION),
    "exception that is raised again": (
        ("def get():\n    try:\n        f()\n        return 1\n    except OSError:\n        raise\n"
        "if get():  # HERE\n    pass"), Origin.AGREED),
    "received": (
        "import torch.distributed as dist\ndist.recv(x, 0)\nif x:  # HERE\n    pass",
        Origin.RECEIVED),
    "root": (
        "import torch.distributed as dist\ndist.reduce(x, 0)\nif x:  # HERE\n    pass",
        Origin.ROOT),
    "list that is changed": (
        "import time\nx = [1]\nif time.time() > 5:\n    x.append(2)\nfor y in x:  # HERE\n    pass",
        Origin.CLOCK),
    "list that someone else may change": (
        "x = [1]\nfill(x)\nfor y in x:  # HERE\n    pass", Origin.UNKNOWN),
    "property": (
        """import time
class Job:
    @property
    def done(self):
        return time.time() > 5
    def run(self):
        while not self.done:  # HERE
            pass""", Origin.CLOCK),
    "flag that a method sets under a condition": (
        """import time
class Job:
    def __init__(self):
        self.stop = False
    def look(self):
        if time.time() > 5:
            self.stop = True
    def run(self):
        while not self.stop:  # HERE
            self.look()""", Origin.CLOCK),
    "flag that every rank sets": (
        """class Job:
    def __init__(self):
        self.stop = False
    def look(self):
        self.stop = True
    def run(self):
        while not self.stop:  # HERE
            self.look()""", Origin.UNKNOWN),
    "flag that another object sets": (
        """class Stopper:
    def look(self, job):
        if job.loss.isnan():
            job.stop = True
def run(job, stopper):
    while not job.stop:  # HERE
        stopper.look(job)""", Origin.DATA),
    "attribute of an object of the only class that has it": (
        """import time
class Clock:
    def __init__(self):
        self.begun = time.time()
def run(clock):
    if clock.begun > 5:  # HERE
        pass""", Origin.CLOCK),
    "attribute that two classes have": (
        """import time
class Clock:
    def __init__(self):
        self.begun = time.time()
class Watch:
    def __init__(self):
        self.begun = 0
def run(clock):
    if clock.begun > 5:  # HERE
        pass""", Origin.UNKNOWN),
    "attribute of the object": (
        """import time
class A:
    def __init__(self):
        self.t = time.time()
    def f(self):
        if self.t:  # HERE
            pass""", Origin.CLOCK),
    "option of a dataclass": (
        """from dataclasses import dataclass
@dataclass
class Config:
    every: int = 4
class Trainer:
    def __init__(self, cfg):
        self.cfg = cfg
    def fit(self):
        if self.cfg.every > 3:  # HERE
            pass
Trainer(Config()).fit()""", Origin.AGREED),
    "option that is passed to a dataclass": (
        """import os
from dataclasses import dataclass
@dataclass
class Config:
    seed: int = 0
    every: int = 4
def run(cfg: Config):
    pass
cfg = Config(1, int(os.environ["EVERY"]))
if cfg.every > 3:  # HERE
    pass""", Origin.ENVIRONMENT),
    "option that is called like a method": (
        "if settings.max > 3:  # HERE\n    pass", Origin.UNKNOWN),
    "option that is set elsewhere": (
        """import time
class Config:
    def __init__(self):
        self.every = 4
cfg = Config()
cfg.every = time.time()
if cfg.every > 3:  # HERE
    pass""", Origin.CLOCK),
    "state that one rank restores": (
        """class Average:
    def __init__(self):
        self.updates = 0
    def restore(self, state):
        self.updates = state["updates"]
    def update(self):
        if self.updates % 4 == 0:  # HERE
            pass
average = Average()
if rank == 0:
    average.restore({"updates": 3})
average.update()""", Origin.STATE),
    "list that one rank makes shorter": (
        """class Kept:
    def __init__(self):
        self.steps = []
        self.is_first = get_rank() == 0
    def due(self):
        return self.steps[0] > 4
    def prune(self):
        if not self.is_first:
            return
        oldest = self.steps.pop(0)
        print(oldest)
kept = Kept()
if kept.due():  # HERE
    kept.prune()""", Origin.STATE),
    "state that every rank restores": (
        """class Average:
    def __init__(self):
        self.updates = 0
    def restore(self):
        self.updates = 3
    def update(self):
        if self.updates % 4 == 0:  # HERE
            pass
average = Average()
average.restore()
average.update()""", Origin.UNKNOWN),
    "object that goes through a set": (
        """class Words:
    def __init__(self, text):
        self.words = {one.lower() for one in text}
    def __iter__(self):
        return iter(self.words)
for word in Words("a b"):  # HERE
    pass""", Origin.ORDER),
    "function of the file": (
        "import time\ndef late():\n    return time.time() > 5\nif late():  # HERE\n    pass",
        Origin.CLOCK),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_a_condition_is_followed_to_its_origin(case: str) -> None:
    text, origin = CASES[case]
    assert origins_of(text)[:1] == (origin,)


@pytest.mark.parametrize(
    ("chosen", "lines"),
    [
        pytest.param("import time\ngroup = one if time.time() > 5 else two", {2: Origin.CLOCK}),
        pytest.param("group = one if 3 > 2 else two", {}, id="alike on all ranks"),
        pytest.param(
            "import time\ngroup = one if time.time() > 5 else two\nif rank == 3:\n    group = two",
            {2: Origin.CLOCK, 3: Origin.CHOSEN},
            id="and assigned once more",
        ),
    ],
)
def test_a_name_is_chosen_by_the_condition_of_its_expression(
    chosen: str, lines: dict[int, Origin]
) -> None:
    """The arms of the expression are parameters of the function: they tell nothing."""
    text = "def call(one, two, rank):\n" + textwrap.indent(chosen, "    ") + "\n    use(group)\n"
    program = Program(Files(Texts(**{PATH: text})))
    function, graph = standin.graph_at(program, PATH, text.count("\n"))
    (node,) = (one for one in graph.at(text.count("\n")) if isinstance(one.tree, ast.Call))
    assert isinstance(node.tree, ast.Call)
    told = Tracer(program, Agreements()).assignments(node.tree.args[0], Place(function, node))
    found: dict[int, list[Origin]] = {}
    for at, sources in told:
        line = (at.node.line if at.node else at.line) - 1
        found.setdefault(line, []).extend(one.origin for one in sources)
    first = {line: origins.sorted_by_weight(those)[0] for line, those in found.items()}
    ignored = (Origin.UNKNOWN, Origin.AGREED)
    assert {line: one for line, one in first.items() if one not in ignored} == lines


def test_the_numbers_that_are_drawn_do_not_decide_a_size() -> None:
    text = "import torch, time\nx = torch.randn(%s)\nif x:  # HERE\n    pass"
    assert origins_of(text % "time.time()")[:1] == (Origin.RANDOM,)
    assert origins_of(text % "time.time()", asked=Asked.SIZE) == (Origin.CLOCK,)
    assert Origin.RANDOM not in origins_of(text % "4", asked=Asked.SIZE)


REDUCED = """
import torch
import torch.distributed as dist
flag = torch.tensor(is_bad(batch))
dist.all_reduce(flag)
if flag.item() > 0:  # HERE
    pass
"""


def test_the_result_of_an_all_reduce_is_agreed_if_the_records_say_so() -> None:
    assert origins_of(REDUCED, All()) == (Origin.AGREED,)
    assert Origin.AGREED not in origins_of(REDUCED)


class WithoutLines(All):
    """No rank made a collective from these lines."""

    def __init__(self, *lines: int) -> None:
        self.lines = lines

    def has_run(self, site: Site) -> bool:
        return site.line not in self.lines


def test_a_value_does_not_come_from_lines_behind_a_call_that_no_rank_made() -> None:
    text = """def pieces(batch, rank):
    count = len(batch)
    if dist.is_initialized():
        t = torch.tensor([count])
        dist.all_reduce(t)
        count = rank
    if count:  # HERE
        pass
"""
    assert Origin.RANK in origins_of(text) or Origin.CHOSEN in origins_of(text)
    assert {*origins_of(text, WithoutLines(5))}.isdisjoint({Origin.RANK, Origin.CHOSEN})
    assert origins_of(text, WithoutLines(4)) == origins_of(text)


def test_a_result_that_is_changed_since_is_not_agreed() -> None:
    changed = REDUCED.replace("if flag", "flag[0] = local()\nif flag")
    assert Origin.AGREED not in origins_of(changed, All())


def test_a_generator_and_what_fills_a_tensor_decide_no_size() -> None:
    text = "import torch, time\nx = torch.%s\nif x:  # HERE\n    pass"
    for made in ("rand(4, generator=time.time())", "full((4,), time.time())"):
        assert origins_of(text % made, asked=Asked.SIZE) in ((Origin.AGREED,), (Origin.UNKNOWN,))
    assert origins_of(text % "full((4,), time.time())") == (Origin.CLOCK,)


def test_the_size_of_a_part_that_the_rank_chose_differs_by_rank() -> None:
    text = (
        "from torch.distributed import get_rank\nfrom torch import nn\n"
        "x = nn.Parameter(table[get_rank() * 4 :])\nif x:  # HERE\n    pass"
    )
    assert origins_of(text, asked=Asked.SIZE) == (Origin.CHOSEN,)
    assert origins_of(text) == (Origin.DATA,)


def test_a_dtype_depends_on_the_contexts_around_a_value() -> None:
    text = (
        "from torch.distributed import get_rank\nimport contextlib, torch\n"
        "def precision(rank):\n"
        "    if rank == 1:\n"
        "        return torch.autocast('cpu')\n"
        "    return contextlib.nullcontext()\n"
        "with precision(get_rank()):\n    x = model(4)\n"
        "if x:  # HERE\n    pass"
    )
    assert origins_of(text, asked=Asked.DTYPE)[:1] == (Origin.CHOSEN,)
    assert origins_of(text, asked=Asked.SIZE) == (Origin.UNKNOWN,)


OPTIONS = """
import os
import sys
from argparse import ArgumentParser
class Trainer:
    def __init__(self, args):
        self.args = args
    def fit(self):
        CONDITION:  # HERE
            pass
def main():
    parser = ArgumentParser()
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--wire-dtype", default=os.environ.get("WIRE"))
    args = parser.parse_args()
    args.steps = len(os.listdir("data"))
    Trainer(args).fit()
"""


@pytest.mark.parametrize(
    ("condition", "origin"),
    [
        ("if self.args.epochs > 2", Origin.AGREED),
        ("for _ in range(self.args.epochs)", Origin.AGREED),
        ("if self.args.wire_dtype", Origin.ENVIRONMENT),
        ("if self.args.steps", Origin.FILES),
        ("if len(sys.argv) > 1", Origin.AGREED),
    ],
)
def test_options_are_agreed_if_all_ranks_got_the_same_command_line(
    condition: str, origin: Origin
) -> None:
    text = OPTIONS.replace("CONDITION", condition)
    assert origins_of(text, same_arguments=True)[0] is origin
    assert origin is Origin.FILES or origins_of(text)[0] is Origin.ENVIRONMENT
