"""Whose gradients a backward reduces: asked where DDP's reducer issues its buckets."""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING, Any

import torch

from collectrace.tracer.record.models import Models

if TYPE_CHECKING:
    import pytest


def net() -> torch.nn.Module:
    return torch.nn.Linear(2, 2, bias=False)


def asked(models: Models, *parameters: Any) -> list[Any]:
    """What is known when the gradient of each parameter has been accumulated, in that order."""
    found: list[Any] = []
    for parameter in parameters:
        parameter.register_post_accumulate_grad_hook(lambda _: found.append(models.in_backward()))
    return found


def ran(*modules: torch.nn.Module) -> Models:
    models = Models()
    for module in modules:
        models.forward_begins(module)
    return models


def test_forwards_are_counted_per_module() -> None:
    first, second = net(), net()
    models = Models()
    assert [models.forward_begins(m) for m in (first, first, second, first)] == [1, 2, 1, 3]
    assert (models.forwards(first), models.forwards(net())) == (3, 0)


class Wrapped(torch.nn.Module):
    """Holds a module as DDP does."""

    def __init__(self) -> None:
        super().__init__()
        self.module = torch.nn.ModuleDict({"frozen": net(), "left": net(), "used": net()})
        self.module["frozen"].requires_grad_(requires_grad=False)
        self.parameters_to_ignore = {"left.weight"}


UNUSED = (
    "Expected to ..\nParameter indices which did not receive grad for rank 1: 0 7\n In addition"
)


def test_the_indices_of_an_exception_get_names() -> None:
    model = Wrapped()
    models = ran(model)
    assert models.without_gradient(UNUSED) == ["used.weight"]
    assert models.without_gradient("Connection reset by peer") is None
    models.forward_begins(net())
    gc.collect()
    assert models.without_gradient(UNUSED) == ["used.weight"]
    other = net()
    models.forward_begins(other)
    assert models.without_gradient(UNUSED) is None


def test_outside_of_a_backward_it_is_not_known() -> None:
    assert ran(net(), net()).in_backward() is None


def test_both_forwards_before_both_backwards() -> None:
    first, second = net(), net()
    models = ran(first, second)
    found = asked(models, *first.parameters(), *second.parameters())
    losses = [m(torch.ones(1, 2)).sum() for m in (first, second)]
    losses[1].backward()
    losses[0].backward()
    assert found == [second, first]


def test_one_backward_of_both() -> None:
    first, second = net(), net()
    models = ran(first, second)
    found = asked(models, *first.parameters(), *second.parameters())
    (first(torch.ones(1, 2)).sum() + second(torch.ones(1, 2)).sum()).backward()
    assert sorted(map(id, found)) == sorted(map(id, (first, second)))


def test_a_module_that_came_later() -> None:
    first, second = net(), net()
    models = ran(first)
    found = asked(models, *first.parameters(), *second.parameters())
    first(torch.ones(1, 2)).sum().backward()
    models.forward_begins(second)
    second(torch.ones(1, 2)).sum().backward()
    assert found == [first, second]


def test_a_parameter_that_two_modules_share_is_of_neither() -> None:
    first, second = net(), net()
    second.weight = first.weight
    models = ran(first, second)
    found = asked(models, *first.parameters())
    second(torch.ones(1, 2)).sum().backward()
    assert found == [None]


def test_a_parameter_of_no_module() -> None:
    models = ran(net(), net())
    other = net()
    found = asked(models, *other.parameters())
    other(torch.ones(1, 2)).sum().backward()
    assert found == [None]


def test_without_the_function_of_torch_it_is_not_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("collectrace.tracer.record.models._current_node", lambda: None)
    first = net()
    found = asked(ran(first, net()), *first.parameters())
    first(torch.ones(1, 2)).sum().backward()
    assert found == [None]
