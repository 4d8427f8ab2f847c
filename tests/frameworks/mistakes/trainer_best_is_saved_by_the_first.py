"""A callback asks for a checkpoint after the evaluation, on the main process only.

expect: op_mismatch dtype_mismatch
suspects: none
status: diverged
cause: rank 0; BUG; /sav|checkpoint|store_flos/
fix: every rank | all ranks | both ranks | each rank
never: drop_last; join(); find_unused_parameters
"""

import common
import tiny_bert
import torch
from torch.utils.data import Dataset
from transformers import Trainer, TrainerCallback, TrainingArguments


class Sentences(Dataset):
    def __init__(self, rows, seed):
        generator = torch.Generator().manual_seed(seed)
        self.ids = torch.randint(0, 50, (rows, 6), generator=generator)
        self.labels = (self.ids.sum(1) > 147).long()

    def __len__(self):
        return len(self.ids)

    def __getitem__(self, index):
        return {"input_ids": self.ids[index], "labels": self.labels[index]}


class SaveTheBest(TrainerCallback):
    """Asks for a checkpoint whenever the evaluation was the best so far, but for the first."""

    def __init__(self, everywhere, warm=2):
        self.best = float("inf")
        self.seen = 0
        self.everywhere = everywhere
        self.warm = warm

    def on_evaluate(self, args, state, control, metrics=None, **kwargs):
        self.seen += 1
        if self.seen <= self.warm:
            return control
        if metrics["eval_loss"] < self.best:
            self.best = metrics["eval_loss"]
            if self.everywhere or state.is_world_process_zero:
                control.should_save = True
        return control


def main():
    arguments = TrainingArguments(
        output_dir="saved",
        use_cpu=True,
        max_steps=12,
        per_device_train_batch_size=4,
        per_device_eval_batch_size=4,
        eval_strategy="steps",
        eval_steps=2,
        save_strategy="no",
        logging_strategy="no",
        report_to="none",
        disable_tqdm=True,
        seed=2,
        ddp_timeout=60,
        dataloader_num_workers=0,
    )
    trainer = Trainer(
        model=tiny_bert.model(),
        args=arguments,
        train_dataset=Sentences(64, 1),
        eval_dataset=Sentences(16, 2),
        callbacks=[SaveTheBest(everywhere=common.TWIN)],
    )
    trainer.train()  # BUG
    torch.distributed.destroy_process_group()


main()
