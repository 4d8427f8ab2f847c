"""Which framework issued a call: by the files, and functions, between it and the user's code."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from collectrace import roles
from collectrace.tracer.record import issuers

TORCH = Path(torch.__file__).parent


def role(tmp_path: Path, *frames: tuple[str, str]) -> str | None:
    """Of a call in the first frame, called by the others, the last by the user's.

    Each is a file below torch's folder and the name of a function in it.
    """
    call: Any = lambda: issuers.by_file(sys._getframe(1))  # noqa: E731 - as an innermost frame
    for path, name in [*((TORCH / path, name) for path, name in frames), (tmp_path / "my.py", "f")]:
        made: dict[str, Any] = {"call": call}
        exec(compile(f"def {name}(): return call()", str(path), "exec"), made)
        call = made[name]
    found = call()
    assert found is None or isinstance(found, str)
    return found


GATHER = ("distributed/distributed_c10d.py", "all_gather_object")
RUN = (("_inductor/output_code.py", "__call__"), ("_dynamo/eval_frame.py", "compile_wrapper"))


@pytest.mark.parametrize(
    "frames",
    [
        [("_dynamo/output_graph.py", "run_compiler_collective"), ("_dynamo/convert_frame.py", "f")],
        [("_dynamo/eval_frame.py", "guard_collectives_hook")],
        [
            ("_functorch/partitioners.py", "_sync"),
            ("_functorch/_aot_autograd/graph_compile.py", "g"),
        ],
        [("_inductor/fx_passes/spmd_check.py", "check"), ("_inductor/compile_fx.py", "compile_fx")],
        [("_inductor/comms.py", "align"), ("_inductor/scheduler.py", "run")],
        [("_inductor/distributed_autotune.py", "_sync"), ("_inductor/graph.py", "run")],
        [("_inductor/select_algorithm.py", "benchmark"), ("_inductor/graph.py", "run")],
    ],
)
def test_what_the_compiler_asks_the_other_ranks(
    frames: list[tuple[str, str]], tmp_path: Path
) -> None:
    assert role(tmp_path, GATHER, *frames) == "compile.agree"


def test_what_a_graph_runs_is_the_scripts(tmp_path: Path) -> None:
    assert role(tmp_path, ("distributed/_functional_collectives.py", "g"), *RUN) == "compile.graph"


def test_what_runs_beside_the_compiler_is_the_scripts_own(tmp_path: Path) -> None:
    assert role(tmp_path, GATHER, ("_dynamo/eval_frame.py", "compile_wrapper")) is None
    assert role(tmp_path, GATHER) is None


@pytest.mark.parametrize(
    ("files", "role_of_it"),
    [
        (["generation/utils.py"], "transformers.other"),
        (["models/mixtral/modeling_mixtral.py", "integrations/moe.py"], "transformers.other"),
        (["trainer_pt_utils.py"], "transformers.other"),
        (["trainer_pt_utils.py", "trainer.py"], "trainer.other"),
        (["generation/utils.py", "trainer_seq2seq.py", "trainer.py"], "trainer.other"),
    ],
)
def test_transformers_at_work_with_and_without_its_trainer(
    files: list[str], role_of_it: str, tmp_path: Path
) -> None:
    package = TORCH.parent / "transformers"
    frames = [(str(package / file), "run") for file in files]
    assert role(tmp_path, GATHER, *frames) == role_of_it
    assert roles.of(role_of_it).pairs == roles.USER


def test_they_pair_as_the_scripts_own() -> None:
    agree = roles.of("compile.agree")
    assert agree.pairs == roles.USER
    assert "torch.compile" in agree.words


def test_the_files_of_the_table_are_torchs() -> None:
    """A row whose file has gone names nothing."""
    for start, role in issuers._FILES:
        path = start.partition(" ")[0]
        if role == "compile.agree":
            assert (TORCH.parent / path).exists(), path
