"""Accelerate: the main process alone gathers for metrics.

expect: op_mismatch shape_mismatch role_mismatch
suspects: 0
status: diverged
cause: rank 0; BUG; gather_for_metrics; only rank 0; is_main_process
fix: gather_for_metrics(); every process; is_main_process
never: find_unused_parameters; no part in the loss; join(); loop ended; ragged; ambiguous
"""

import datetime

import common
import torch
from accelerate import Accelerator, InitProcessGroupKwargs
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

patience = InitProcessGroupKwargs(backend="gloo", timeout=datetime.timedelta(seconds=60))
accelerator = Accelerator(cpu=True, kwargs_handlers=[patience])
model = nn.Linear(8, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
data = DataLoader(TensorDataset(torch.randn(64, 8)), batch_size=4)
model, optimizer, loader = accelerator.prepare(model, optimizer, data)
for i, (x,) in enumerate(loader):
    loss = model(x).square().mean()
    accelerator.backward(loss)
    optimizer.step()
    optimizer.zero_grad()
    if i == 3 and (common.TWIN or accelerator.is_main_process):
        print(accelerator.gather_for_metrics(loss.detach()).mean())  # BUG
accelerator.wait_for_everyone()
accelerator.end_training()
