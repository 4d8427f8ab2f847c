"""Each rank stops early by a metric of its own shard: rank 1 leaves after two epochs.

expect: op_mismatch shape_mismatch role_mismatch dtype_mismatch
suspects: none
status: diverged
cause: rank 1; BUG; ended; EarlyStoppingCallback
fix: every rank
never: drop_last; join(); /rank 0 (stopped|left|is to blame|is wrong)/
"""

import gc

import common
import tiny_bert
import torch
from transformers import EarlyStoppingCallback, Trainer, TrainingArguments


class Sentences(torch.utils.data.Dataset):
    def __init__(self, labels):
        self.ids = torch.randint(
            5, 50, (len(labels), 6), generator=torch.Generator().manual_seed(len(labels))
        )
        self.labels = labels

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, i):
        return {"input_ids": self.ids[i], "labels": self.labels[i]}


class SpanTrainer(Trainer):
    """Keeps what the model says of each sample, of which Trainer would not collect objects."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, compute_metrics=self.score, **kwargs)
        self.surprises = []

    def prediction_step(self, model, inputs, prediction_loss_only, ignore_keys=None):
        loss, logits, labels = super().prediction_step(model, inputs, False, ignore_keys)
        chosen = logits.log_softmax(-1).gather(1, labels[:, None]).squeeze(1)
        self.surprises.extend((-chosen).tolist())
        return loss, logits, labels

    def score(self, prediction):
        value = sum(self.surprises) / len(self.surprises)
        self.surprises.clear()
        return {
            "surprise": value,
            "accuracy": float((prediction.predictions.argmax(-1) == prediction.label_ids).mean()),
        }


def main():
    args = TrainingArguments(
        output_dir="saved",
        use_cpu=True,
        ddp_backend="gloo",
        ddp_timeout=60,
        report_to=[],
        disable_tqdm=True,
        num_train_epochs=4,
        per_device_train_batch_size=4,
        per_device_eval_batch_size=4,
        learning_rate=2e-3,
        seed=0,
        eval_strategy="epoch",
        save_strategy="epoch",
        logging_strategy="epoch",
        load_best_model_at_end=True,
        metric_for_best_model="loss" if common.TWIN else "surprise",
        greater_is_better=False,
    )
    trainer = SpanTrainer(
        model=tiny_bert.model(),
        args=args,
        train_dataset=Sentences([1] * 32),
        eval_dataset=Sentences(([1] * 4 + [0] * 4) * 3),
        callbacks=[EarlyStoppingCallback(early_stopping_patience=1)],
    )
    trainer.train()  # BUG
    print("epochs", trainer.state.epoch, "loss", trainer.evaluate()["eval_loss"])  # AFTER
    trainer.accelerator.wait_for_everyone()


main()
gc.collect()
torch.distributed.destroy_process_group()
