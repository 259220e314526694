"""The jobs of jobs.py as Lightning's users write them: the same data, network, optimizer, schedule and checkpoints."""
import warnings

import pytorch_lightning as lightning
import torch
from jobs import arguments, loss_of, prepared, report
from pytorch_lightning.callbacks import ModelCheckpoint
from pytorch_lightning.loggers import CSVLogger


class Job(lightning.LightningModule):
    def __init__(self, model, wanted, steps):
        super().__init__()
        self.model, self.wanted, self.steps = model, wanted, steps

    def training_step(self, batch, _):
        x, y = batch
        loss = loss_of(self.model(x), y)
        self.log("loss", loss, on_step=False, on_epoch=True, batch_size=len(x))
        return loss

    def validation_step(self, batch, _):
        x, y = batch
        self.log("val_loss", loss_of(self.model(x), y), batch_size=len(x))

    def configure_optimizers(self):
        weights = [p for p in self.parameters() if p.requires_grad]
        optimizer = torch.optim.AdamW(weights, lr=self.wanted.lr, weight_decay=self.wanted.weight_decay, fused=True)
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, self.steps)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}


def main():
    warnings.filterwarnings("ignore")
    wanted = arguments()
    model, train, val = prepared(wanted)
    trainer = lightning.Trainer(
        max_epochs=wanted.epochs,
        accelerator="cpu",
        devices=1,
        gradient_clip_val=wanted.clip_norm,
        logger=CSVLogger("logs"),
        callbacks=[ModelCheckpoint("checkpoints", monitor="val_loss", save_last=True, save_top_k=1)],
        enable_progress_bar=False,
        enable_model_summary=False,
        num_sanity_val_steps=0,
        inference_mode=False,
    )
    trainer.fit(Job(model, wanted, wanted.epochs * len(train)), train, val)
    report(model, trainer.global_step, float(trainer.callback_metrics["val_loss"]))


if __name__ == "__main__":
    main()
