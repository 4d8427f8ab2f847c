"""torch's tests of RPC, distributed autograd and DDP under it, which come in its wheel.

As ``test/distributed/rpc/test_tensorpipe_agent.py`` of torch makes them of it.
"""

from __future__ import annotations

from torch.testing._internal.distributed.rpc.tensorpipe_rpc_agent_test_fixture import (
    TensorPipeRpcAgentTestFixture,
)
from torch.testing._internal.distributed.rpc_utils import (
    GENERIC_TESTS,
    TENSORPIPE_TESTS,
    generate_tests,
)

globals().update(
    generate_tests(
        "TensorPipe", TensorPipeRpcAgentTestFixture, GENERIC_TESTS + TENSORPIPE_TESTS, __name__
    )
)
