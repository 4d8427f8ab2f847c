import common
import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

accelerator = Accelerator(cpu=True)
set_seed(0)
data = TensorDataset(torch.randn(22, 8), torch.randn(22, 4))
held_out = TensorDataset(torch.randn(13, 8), torch.randn(13, 4))
model = nn.Linear(8, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
model, optimizer, loader, evaluation = accelerator.prepare(
    model, optimizer, DataLoader(data, 4, shuffle=True), DataLoader(held_out, 4)
)
for epoch in range(2):
    for x, y in loader:
        loss = (model(x) - y).square().mean()
        accelerator.backward(loss)
        optimizer.step()
        optimizer.zero_grad()
    with torch.no_grad():
        outputs = [accelerator.gather_for_metrics(model(x)) for x, _ in evaluation]
    common.told(f"outputs {epoch}", torch.cat(outputs).sum())
    common.told(f"gathered {epoch}", accelerator.gather(loss.detach()).mean())
    common.told(f"reduced {epoch}", accelerator.reduce(loss.detach(), "mean"))
    accelerator.pad_across_processes(torch.ones(2 + accelerator.process_index), dim=0)
accelerator.wait_for_everyone()
with accelerator.main_process_first():
    pass
if accelerator.process_index == 0:
    accelerator.set_trigger()
accelerator.check_trigger()
accelerator.end_training()
