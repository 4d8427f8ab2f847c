import tiny_bert
import torch
from torch.utils.data import TensorDataset
from transformers import TrainingArguments, set_seed


def collate(rows):
    x, y = zip(*rows, strict=True)
    return {"input_ids": torch.stack(x), "labels": torch.stack(y)}


def train(trainer, labels=None):
    set_seed(0)
    ids = torch.randint(0, 50, (64, 6))
    labels = torch.randint(0, 2, (64,)) if labels is None else labels
    trainer(
        model=tiny_bert.model(),
        args=TrainingArguments(
            "saved",
            per_device_train_batch_size=4,
            num_train_epochs=1,
            use_cpu=True,
            ddp_backend="gloo",
            ddp_timeout=60,
            save_strategy="no",
            report_to=[],
            disable_tqdm=True,
        ),
        train_dataset=TensorDataset(ids, labels),
        data_collator=collate,
    ).train()
