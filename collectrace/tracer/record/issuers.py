"""Find the framework that issued a call outside all patched functions, by the files on the stack.

Usually a patched function gives a call its role (``patches/frameworks``). Other calls of frameworks
get a role here that names only the framework, so that they do not look like the script's calls.
Such roles pair like the script's calls: which role a line gets first may differ between ranks.
"""

from __future__ import annotations

import os
from types import FrameType
from typing import Final

from collectrace.tracer.record import owners

_FILES: Final = (
    # Collectives by which torch.compile lets the ranks agree. None of these files is on the stack
    # when a graph runs (torch 2.13: output_graph.py under convert_frame.py, and their callers).
    ("torch/_dynamo/convert_frame.py", "compile.agree"),
    ("torch/_dynamo/eval_frame.py guard_collectives_hook", "compile.agree"),
    ("torch/_functorch/partitioners.py", "compile.agree"),
    ("torch/_inductor/comms.py", "compile.agree"),
    ("torch/_inductor/distributed_autotune.py", "compile.agree"),
    ("torch/_inductor/fx_passes/", "compile.agree"),
    ("torch/_inductor/select_algorithm.py", "compile.agree"),
    ("torch/distributed/tensor/experimental/_context_parallel/", "cp.other"),
    ("torch/distributed/tensor/", "dtensor.other"),
    ("torch/distributed/fsdp/", "fsdp.other"),
    ("torch/distributed/pipelining/", "pp.other"),
    ("torch/distributed/checkpoint/", "dcp.other"),
    ("torch/distributed/_state_dict_utils.py", "dcp.other"),
    ("torch/_inductor/", "compile.graph"),
    ("torch/_functorch/_aot_autograd/", "compile.graph"),
    ("torch/fx/graph_module.py", "compile.graph"),
    ("<eval_with_key>", "compile.graph"),
    ("deepspeed/", "deepspeed.other"),
    ("torchmetrics/", "torchmetrics.other"),
    ("lightning/", "lightning.other"),
    ("pytorch_lightning/", "lightning.other"),
    ("lightning_fabric/", "lightning.other"),
    ("transformers/trainer.py", "trainer.other"),
    ("transformers/trainer_seq2seq.py", "trainer.other"),
    ("transformers/", "transformers.other"),
    ("accelerate/", "accelerate.other"),
    ("ray/", "ray.other"),
)
"""Prefixes of a framework's files below the folder of packages, or a path and a function; and the
role of their calls. If several frameworks are on a stack, the first row counts."""

_PATHS: Final = tuple((path.replace("/", os.sep), role) for path, role in _FILES)


def by_file(frame: FrameType | None) -> str | None:
    """Return the role of a call issued in ``frame``, by the files between it and the user's code.

    None: no framework of the table is between them.
    """
    paths = set()
    while frame is not None and owners.classify(frame.f_code) != owners.USER:
        paths.add((frame.f_code.co_filename, frame.f_code.co_name))
        frame = frame.f_back
    inner = [f"{_inner(path)} {function}" for path, function in paths]
    return next((role for start, role in _PATHS if any(p.startswith(start) for p in inner)), None)


def _inner(path: str) -> str:
    root = owners.torch_root()
    if path.startswith(root):
        return f"torch{os.sep}{path.removeprefix(root)}"
    return path.rpartition(f"-packages{os.sep}")[2]
