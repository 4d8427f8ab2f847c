import common
import numpy
import tiny_bert
import torch
from torch.utils.data import Dataset
from transformers import Trainer, TrainingArguments, set_seed


class Words(Dataset):
    def __init__(self, count):
        generator = torch.Generator().manual_seed(count)
        self.x = torch.randint(0, 50, (count, 6), generator=generator)
        self.y = torch.randint(0, 2, (count,), generator=generator)

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        return {"input_ids": self.x[i], "labels": self.y[i]}


class Told(Trainer):
    def compute_loss(self, *args, **options):
        loss = super().compute_loss(*args, **options)
        common.told(self.state.global_step, loss[0] if isinstance(loss, tuple) else loss)
        return loss


def accuracy(found):
    return {"accuracy": float((numpy.argmax(found.predictions, -1) == found.label_ids).mean())}


set_seed(0)
arguments = TrainingArguments(
    "saved",
    per_device_train_batch_size=4,
    per_device_eval_batch_size=4,
    num_train_epochs=1,
    use_cpu=True,
    ddp_backend="gloo",
    eval_strategy="steps",
    eval_steps=2,
    logging_steps=1,
    save_steps=2,
    report_to=[],
    disable_tqdm=True,
)
trainer = Told(
    model=tiny_bert.model(),
    args=arguments,
    train_dataset=Words(30),
    eval_dataset=Words(13),
    compute_metrics=accuracy,
)
trainer.train()
trainer.evaluate()
