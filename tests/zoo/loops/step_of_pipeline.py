"""Two stages with an optimizer each; in step 5 the second gives back a gradient of another size.

expect: p2p_mismatch
suspects: none
status: diverged
cause: rank 0; rank 1; BUG; float32[4]; float32[2]; /(step|iteration) 5\\b/; /2nd of 2 calls/
fix: size
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init

rank = init()
stage = torch.nn.Linear(4, 4)
optimizer = torch.optim.SGD(stage.parameters(), lr=0.1)
for step in range(1, 8):
    if rank == 0:
        out = stage(torch.ones(4))
        dist.send(out.detach(), dst=1)
        gradient = torch.empty(4)
        dist.recv(gradient, src=1)
        out.backward(gradient)
    else:
        activation = torch.empty(4)
        dist.recv(activation, src=0)
        stage(activation).sum().backward()
        size = 2 if step == 5 and not TWIN else 4
        dist.send(torch.ones(size), dst=0)  # BUG
    optimizer.step()
    optimizer.zero_grad()
