"""How a wrapper comes onto a function, what it must not change, and how it goes again."""

from __future__ import annotations

import importlib
import inspect
import pickle
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from collectrace.tracer.guard import Wrapper
from collectrace.tracer.patches import patching
from collectrace.tracer.patches.patching import Target

LIBRARY = '''
def reduce(tensor, op="sum"):
    """Reduces."""
    return ("reduced", tensor, op)

def fails():
    raise ZeroDivisionError("theirs")

class Base:
    def inherited(self, x):
        return (type(self).__name__, x)

class Model(Base):
    """A model."""
    class Inner:
        def step(self):
            return "stepped"

    def forward(self, x, *, scale=1):
        """Forwards."""
        return (self, x * scale)

    @staticmethod
    def find(x):
        return ("found", x)

class Other(Base):
    pass
'''


class Session:
    """Installs, and hears of failures."""

    def __init__(self) -> None:
        self.live = True
        self.failures: list[tuple[str, str]] = []
        self.seen: list[Any] = []
        self.missed: list[str] = []

    def count_failure(self, problem: Exception, doing: str) -> None:
        self.failures.append((str(problem), doing))

    def not_found(self, where: str) -> None:
        self.missed.append(where)


@pytest.fixture
def session() -> Session:
    return Session()


@pytest.fixture
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """A module of its own, with a second one that gives out its function too."""
    (tmp_path / "made_up.py").write_text(LIBRARY)
    (tmp_path / "made_up_front.py").write_text("from made_up import reduce\n")
    (tmp_path / "made_up_late.py").write_text("from made_up import reduce\n")
    monkeypatch.syspath_prepend(tmp_path)
    names = ("made_up", "made_up_front", "made_up_late")
    yield importlib.import_module(names[0])
    for name in names:
        sys.modules.pop(name, None)


@pytest.fixture
def front(library: ModuleType) -> ModuleType:
    return importlib.import_module("made_up_front")


def watching(session: Session) -> Wrapper:
    """Notes each call, and makes it."""

    def wrapper(wrapped: Any, instance: Any, args: Any, kwargs: Any) -> Any:
        session.seen.append((instance, args, kwargs))
        return wrapped(*args, **kwargs)

    return wrapper


def on(name: str, *modules: str, make: Callable[[Any], Any] = watching, **more: Any) -> Target:
    return Target(modules or ("made_up",), name, make, **more)


Undo = Callable[[], None]


@pytest.fixture
def install(session: Session) -> Iterator[Callable[..., tuple[list[str], Undo]]]:
    """Installs targets; what is still on at the end comes off."""
    undos: list[Undo] = []

    def put_on(*targets: Target) -> tuple[list[str], Undo]:
        installed, undo = patching.install(targets, session)
        undos.append(undo)
        return installed, undo

    yield put_on
    for undo in undos:
        undo()


def test_what_torch_is_known_to_have_and_has_not_is_told(session: Session, install: Any) -> None:
    absent = on("reduce", "torch.made_up_never"), on("reduce", "made_up_never")
    installed, _ = install(on("is_tensor", "torch"), on("is_sensor", "torch"), *absent)
    assert installed == ["torch.is_tensor"]
    assert session.missed == ["torch.is_sensor"]


# -- on and off -----------------------------------------------------------------------------


def test_a_function_is_wrapped_wherever_it_is_looked_up_and_put_back(
    library: ModuleType, front: ModuleType, session: Session, install: Any
) -> None:
    original = library.reduce
    installed, undo = install(on("reduce", "made_up_front", "made_up"))
    assert installed == ["made_up_front.reduce"]
    assert library.reduce is front.reduce is not original
    assert library.reduce(1) == ("reduced", 1, "sum")
    assert front.reduce(2, op="max") == ("reduced", 2, "max")
    assert session.seen == [(None, (1,), {}), (None, (2,), {"op": "max"})]
    undo()
    assert library.reduce is front.reduce is original
    undo()
    assert library.reduce is original


def test_a_method_gets_its_object_and_is_put_back(
    library: ModuleType, session: Session, install: Any
) -> None:
    original = vars(library.Model)["forward"]
    _, undo = install(on("Model.forward"))
    model = library.Model()
    assert model.forward(3, scale=2) == (model, 6)
    assert library.Model.forward(model, 3) == (model, 3)
    assert session.seen == [(model, (3,), {"scale": 2}), (model, (3,), {})]
    undo()
    assert vars(library.Model)["forward"] is original


def test_a_method_that_is_inherited_is_wrapped_in_the_one_class(
    library: ModuleType, session: Session, install: Any
) -> None:
    _, undo = install(on("Model.inherited"))
    assert library.Model().inherited(1) == ("Model", 1)
    assert library.Other().inherited(1) == ("Other", 1)
    assert len(session.seen) == 1
    undo()
    assert "inherited" not in vars(library.Model)
    assert library.Model.inherited is library.Base.inherited


def test_a_static_method_stays_one(library: ModuleType, session: Session, install: Any) -> None:
    original = vars(library.Model)["find"]
    _, undo = install(on("Model.find"))
    assert isinstance(vars(library.Model)["find"], staticmethod)
    assert library.Model.find(1) == library.Model().find(1) == ("found", 1)
    assert session.seen == [(None, (1,), {})] * 2
    undo()
    assert vars(library.Model)["find"] is original


def test_a_class_within_a_class_is_found(
    library: ModuleType, session: Session, install: Any
) -> None:
    installed, _ = install(on("Model.Inner.step"))
    assert installed == ["made_up.Model.Inner.step"]
    assert library.Model.Inner().step() == "stepped"
    assert len(session.seen) == 1


def test_what_this_version_does_not_have_is_left_out(library: ModuleType, install: Any) -> None:
    before = dict(vars(library))
    installed, _ = install(on("no_such"), on("Model.no_such"), on("NoClass.step"), on("fails"))
    assert installed == ["made_up.fails"]
    changed = {name for name, value in vars(library).items() if before.get(name) is not value}
    assert changed == {"fails"}


@pytest.mark.usefixtures("library")
def test_a_module_is_not_imported_for_it_and_patched_when_it_is(
    session: Session, install: Any
) -> None:
    installed, undo = install(on("reduce", "made_up_late"))
    assert (installed, "made_up_late" in sys.modules) == ([], False)
    late = importlib.import_module("made_up_late")
    assert installed == ["made_up_late.reduce"]
    assert late.reduce(1) == ("reduced", 1, "sum")
    assert len(session.seen) == 1
    undo()
    late.reduce(2)
    assert len(session.seen) == 1


@pytest.mark.usefixtures("library")
def test_a_module_that_is_imported_after_the_end_is_left_alone(
    session: Session, install: Any
) -> None:
    installed, undo = install(on("reduce", "made_up_late"))
    session.live = False
    undo()
    late = importlib.import_module("made_up_late")
    assert not patching.is_wrapper(late.reduce)
    assert installed == []


# -- under other wrappers -------------------------------------------------------------------


@pytest.mark.parametrize("name", ["reduce", "Model.forward", "Model.inherited"])
def test_a_wrapper_on_top_of_ours_is_not_taken_off(
    name: str, library: ModuleType, install: Any
) -> None:
    *outer, attribute = name.split(".")
    parent: Any = getattr(library, outer[0]) if outer else library
    _, undo = install(on(name))
    ours = getattr(parent, attribute)

    def theirs(*args: Any, **kwargs: Any) -> Any:
        return ours(*args, **kwargs)

    setattr(parent, attribute, theirs)
    undo()
    assert vars(parent)[attribute] is theirs


def test_two_installations_come_off_in_turn(library: ModuleType, install: Any) -> None:
    original = library.reduce
    _, first = install(on("reduce"))
    _, second = install(on("reduce"))
    second()
    assert patching.is_wrapper(library.reduce)
    first()
    assert library.reduce is original


# -- failures -------------------------------------------------------------------------------


def failing(when: str) -> Callable[[Session], Wrapper]:
    def make(session: Session) -> Wrapper:
        def wrapper(wrapped: Any, _: Any, args: Any, kwargs: Any) -> Any:
            session.seen.append(when)
            if when == "before":
                raise KeyError("ours")
            result = wrapped(*args, **kwargs)
            raise KeyError("ours", result)

        return wrapper

    return make


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("name", ["reduce", "Model.forward"])
def test_our_failure_is_not_the_users(
    when: str, name: str, library: ModuleType, session: Session, install: Any
) -> None:
    install(on(name, make=failing(when)))
    model = library.Model()
    if name == "reduce":
        assert library.reduce(7) == ("reduced", 7, "sum")
    else:
        assert model.forward(7) == (model, 7)
    assert session.seen == [when]
    (failure,) = session.failures
    assert failure[0].startswith(("'ours'", "('ours'"))
    assert failure[1] == f"following {name.rpartition('.')[2]}"


def test_the_users_failure_stays_the_users(
    library: ModuleType, session: Session, install: Any
) -> None:
    install(on("fails"))
    with pytest.raises(ZeroDivisionError, match="theirs"):
        library.fails()
    assert (len(session.seen), session.failures) == (1, [])


def test_a_call_is_made_once_even_where_ours_fails_after_it(
    library: ModuleType, install: Any
) -> None:
    made = []
    library.count = lambda: made.append(1)  # type: ignore[attr-defined]
    install(on("count", make=failing("after")))
    library.count()
    assert made == [1]


# -- functions as values --------------------------------------------------------------------


@pytest.mark.parametrize("direct", [False, True])
def test_a_wrapped_function_looks_as_the_function_does(
    direct: bool, library: ModuleType, install: Any
) -> None:
    original = library.reduce
    install(on("reduce", make=standing_in if direct else watching, direct=direct))
    wrapped = library.reduce
    assert wrapped is not original
    assert wrapped.__name__ == "reduce"
    assert wrapped.__doc__ == "Reduces."
    assert wrapped.__module__ == "made_up"
    assert inspect.signature(wrapped) == inspect.signature(original)
    assert inspect.getsource(wrapped) == inspect.getsource(original)


def test_a_wrapped_method_looks_as_the_method_does(library: ModuleType, install: Any) -> None:
    before = inspect.signature(library.Model.forward)
    install(on("Model.forward"))
    wrapped = library.Model.forward
    assert inspect.isfunction(wrapped), "Dynamo calls another thing without its self"
    assert wrapped.__qualname__ == "Model.forward"
    assert wrapped.__doc__ == "Forwards."
    assert inspect.signature(wrapped) == before


def test_a_bound_function_is_pickled_with_its_object(library: ModuleType, install: Any) -> None:
    """Where somebody has made a method of a function of the module."""
    install(on("reduce"))
    library.Model.reduce = library.reduce
    model = library.Model()
    again = pickle.loads(pickle.dumps(model.reduce))
    assert again("max") == ("reduced", again.__self__, "max")
    assert type(again.__self__) is library.Model


# -- the hot path ---------------------------------------------------------------------------


def standing_in(session: Session) -> Callable[[Any], Any]:
    def stand_in(wrapped: Any) -> Any:
        def call(_: Any, /, *args: Any, **kwargs: Any) -> Any:
            session.seen.append((args, kwargs))
            return wrapped(*args, **kwargs)

        return call

    return stand_in


def test_a_direct_function_stands_for_the_original(
    library: ModuleType, front: ModuleType, session: Session, install: Any
) -> None:
    original = library.reduce
    _, undo = install(on("reduce", "made_up", "made_up_front", make=standing_in, direct=True))
    assert library.reduce is front.reduce
    assert patching.is_wrapper(library.reduce)
    assert library.reduce(1, op="max") == ("reduced", 1, "max")
    assert session.seen == [((1,), {"op": "max"})]
    undo()
    assert library.reduce is front.reduce is original


def test_a_direct_function_that_somebody_made_a_method_of(
    library: ModuleType, install: Any
) -> None:
    install(on("reduce", make=standing_in, direct=True))
    library.Model.reduce = library.reduce
    model = library.Model()
    assert model.reduce("max") == ("reduced", model, "max")


# -- which functions are wrappers -----------------------------------------------------------


def test_our_wrappers_are_known_and_no_others(library: ModuleType, install: Any) -> None:
    names = ("reduce", "Model.forward")
    assert not patching.is_wrapper(library.reduce)
    assert not patching.is_wrapper(library.Model.forward)
    _, undo = install(*map(on, names))
    assert patching.is_wrapper(library.reduce)
    assert patching.is_wrapper(library.Model.forward)
    undo()
    assert not patching.is_wrapper(library.reduce)
    assert not patching.is_wrapper(library.Model.forward)
    assert not patching.is_wrapper(3)
