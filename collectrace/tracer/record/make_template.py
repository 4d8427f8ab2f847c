"""Make the template of a new kind of call: what it is, who issued it, from which line.

This runs once per line of code and kind of tensors, not per call.
"""

from __future__ import annotations

from types import FrameType
from typing import Any, NamedTuple

import torch

from collectrace import ops, roles
from collectrace.records import NATIVE, NCCL, Call, backend_for
from collectrace.roles import USER
from collectrace.tracer.record import issuers, scopes, sites
from collectrace.tracer.record.groups import GroupState
from collectrace.tracer.record.scopes import Scope, ThreadState
from collectrace.tracer.record.sites import Place
from collectrace.tracer.record.stacks import Stacks
from collectrace.tracer.record.streams import CallCounter
from collectrace.tracer.record.template import IGNORED, Template
from collectrace.tracer.tap.arguments import ArgumentReader, CallFields


class Origin(NamedTuple):
    """The origin of a call."""

    state: ThreadState
    """The state of the thread that issues it."""
    scope: Scope
    """The scope of the thread, with the module of the gradients that the call reduces."""
    frame: FrameType | None
    """The innermost Python frame that is not the tracer's; None: a thread of C++ has none."""
    place: Place
    """The user's code on the stack above it."""
    from_autograd: bool
    """Whether autograd's engine issues it without Python in between, as with DDP's reducer."""
    hook_role: str | None
    """The role under which a comm hook ran last, if one did."""
    stacks: Stacks
    """The stacks of the run."""


def make_template(
    group: GroupState, reader: ArgumentReader, args: tuple[Any, ...], origin: Origin
) -> Template:
    """Return the template of a call on this group; IGNORED: do not record the call.

    ``args`` are the arguments that ``reader`` reads.
    """
    if group.name in origin.scope.within:
        return IGNORED  # part of a call that is recorded
    fields = reader.fields(args, len(group.ranks))
    if not fields.is_real:
        return IGNORED
    if not origin.state.is_described:
        origin.state.describe()
    call = _call(group, fields, origin)
    template = Template(call, _counter(group, call), fields, group.self_rank)
    if fields.is_async and origin.scope.api is None and not origin.from_autograd:
        # A functional collective. Other callers of a group's method get its Work.
        template.outputs = reader.outputs
    return template


def void_template(group: GroupState, reader: ArgumentReader, args: tuple[Any, ...]) -> Template:
    """Return the template of a call that could not be described, but has a number in its stream."""
    fields = CallFields(reader.row.op, reader.device(args))
    call = Call(seq=0, group=group.name, device=fields.device, op=fields.op, void=True)
    return Template(call, group.stream(fields.device), fields)


def _call(group: GroupState, fields: CallFields, origin: Origin) -> Call:
    scope = origin.scope
    role = _role(fields, origin)
    part = scope.part if role != USER else None
    site, via = sites.resolve(origin.place)
    # A function that is not patched (isend), or was imported by name before it was patched.
    api = scope.api or (sites.public_function(origin.frame) if role == USER else None)
    if role == USER:
        role = issuers.by_file(origin.frame) or USER
    if fields.op in ops.POINT_TO_POINT:
        # The operator does not show it; send() and recv() wait for the Work themselves.
        fields.is_async = api not in ops.of(fields.op).waits_in
    return Call(
        seq=0, group=group.name, device=fields.device, op=fields.op,
        device_index=fields.device_index, cuda_stream=_cuda_stream(fields), dtype=fields.dtype,
        shape=fields.shape, out_shape=fields.out_shape, reduce_op=fields.reduce_op,
        root=group.global_rank(fields.root), peer=group.global_rank(fields.peer),
        tag=None if backend_for(group.record.backend, fields.device) in NCCL else fields.tag,
        splits=fields.splits, async_=fields.is_async or None, role=role, part=part,
        model=_model(group, role, scope), api=api if api != fields.op else None,
        site=site, via=via, thread=origin.state.label or None,
        stack=origin.stacks.number(origin.place),
    )  # fmt: skip


def _cuda_stream(fields: CallFields) -> int | None:
    """Return the id of the current CUDA stream; None for the default one and other devices."""
    if fields.device != "cuda":
        return None
    return torch.cuda.current_stream(fields.device_index).stream_id or None


def _counter(group: GroupState, call: Call) -> CallCounter:
    if call.op not in ops.POINT_TO_POINT or call.peer is None:
        return group.stream(call.device)
    me = group.ranks[group.self_rank]
    return group.channel(call.device, *ops.ends(call.op, me, call.peer), call.tag or 0)


def _model(group: GroupState, role: str, scope: Scope) -> int | None:
    if scope.owner is None or role == USER:
        return None
    owner = scope.owner()
    if owner is None:
        return None
    ordinal = group.owners.of(owner)
    if roles.of(role).in_backward:
        # Only if there are several models, and the one is known (record/models.py). join()'s
        # shadow equals the bucket that it meets.
        return ordinal + 1 if scope.what == "backward" and group.owners.several else None
    return ordinal + 1 if ordinal else None


def _role(fields: CallFields, origin: Origin) -> str:
    scope = origin.scope
    row = roles.of(scope.role) if scope.role is not None else None
    if row is not None and row.is_library and origin.place.is_direct:
        return USER  # the library has called a function of the user, such as a callback
    if row is not None and row.is_family:
        # Outside its named parts, DDP broadcasts the new order of its buckets in C++
        # (Reducer::sync_bucket_indices, torch/csrc/distributed/c10d/reducer.cpp, torch 2.13).
        is_rebuild = scope.api is None and fields.op == "broadcast"
        if is_rebuild and scope.owner is not None:
            return "ddp.forward.rebuild_buckets"
        return "join.own_hook" if scope.role == "join" else USER
    if scope.role == "ddp.forward.notify_join" and not fields.is_async:
        # Join.notify_join_context's second call, under throw_on_early_termination.
        return "ddp.forward.terminate_check"
    if row is not None:
        return dict(row.if_op).get(fields.op, row.name)
    is_native = origin.state.name.startswith(NATIVE)
    if origin.from_autograd and (scopes.backward or is_native):
        # The map of used parameters is the only int32 that the reducer reduces.
        is_map = fields.dtype == "int32" and fields.op == "all_reduce"
        return "ddp.backward.unused_params" if is_map else "ddp.backward.bucket"
    if is_native and origin.hook_role is not None:
        return origin.hook_role
    return USER
