"""Writes offline W&B runs with W&B's own client. Input: {"folder", "kind"}; the last line of output: the folders of the runs."""
import glob
import json
import os
import sys
import types

asked = json.load(sys.stdin)
os.environ.update(WANDB_MODE="offline", WANDB_SILENT="true", WANDB_DISABLE_GIT="true", WANDB__DISABLE_STATS="true")
os.chdir(asked["folder"])
import wandb


def rich():
    config = {
        "lr": 0.001, "big": 2**60, "float": 1e9, "small": 1e-7, "text": "é \"quoted\"\nline", "nothing": None,
        "yes": True, "nan": float("nan"), "day": "2026-11-22", "number": "12", "no": "no", "empty": {}, "list": [],
        "nested": {"a": [1, 2.5, {"b": "c"}], "2": 1, "10": 2}, "with.dot": 1, "with/slash": 2,
    }
    run = wandb.init(project="p", entity="e", id="rich", name="a name", tags=["a", "b"], notes="notes", group="g",
                     job_type="train", config=config)
    run.define_metric("val/loss", summary="min")
    run.define_metric("by_epoch", step_metric="epoch")
    for i in range(5):
        run.log({"loss": 1.5 - i / 10, "val/loss": 2.0 - i, "nan": float("nan"), "inf": float("inf"), "tiny": 1e-300,
                 "big": 2**53, "epoch": i, "by_epoch": i * i, "d": {"x": {"y": i}}, "emoji 🙂": i, "text": "é",
                 "histogram": {"_type": "histogram", "values": [1, 2, i], "bins": [0, 1, 2, 3.5]}}, step=i * 3)
        print("line", i)
    print("an error", file=sys.stderr)
    sys.stdout.write("10%\r20%\rdone\n")
    run.summary["best"] = 0.5
    run.summary["nested"] = {"a": 1}
    with open(os.path.join(run.dir, "extra.txt"), "w") as file:
        file.write("extra")
    run.save(os.path.join(run.dir, "extra.txt"), base_path=run.dir)
    run.alert("a title", "its text")
    run.finish(exit_code=3)


def resumed():
    for part in range(2):
        run = wandb.init(project="p", entity="e", id="resumed", resume="allow", config={"lr": part, f"only{part}": 1})
        for i in range(4):
            run.log({"loss": 1 / (1 + i + 4 * part)})
        run.finish()


def long():
    run = wandb.init(project="p", entity="e", id="long")
    for i in range(300):
        run.log({"loss": i / 7, "text": "x" * 100000})
    run.finish()


def globs():
    run = wandb.init(project="p", entity="e", id="globs")
    run.define_metric("epoch", hidden=True)
    run.define_metric("val/*", step_metric="epoch", summary="max")
    run.define_metric("train/*", step_metric="train/step")
    run.define_metric("val/exact", summary="min")
    for i in range(3):
        run.log({"val/a": i, "val/exact": i, "train/loss": 1 / (1 + i), "train/step": 10 * i, "epoch": i, "other": i})
    run.log({"val/b": 1, "epoch": 9, "val/deep": {"x": {"y": 1}}})
    run.finish()


def artifacts():
    run = wandb.init(project="p", entity="e", id="artifacts")
    made = wandb.Artifact("weights", type="model")
    with made.new_file("w.txt") as file:
        file.write("1 2 3")
    run.log_artifact(made)
    run.log({"loss": 1})
    run.finish()


def forked():
    run = wandb.init(project="p", entity="e", id="forked", fork_from="other?_step=5")
    run.log({"loss": 1})
    run.finish()


def rewound():
    run = wandb.init(project="p", entity="e", resume_from="rewound?_step=5")
    run.log({"loss": 1})
    run.finish()


class Counts(dict):
    """All that confusion_matrix wants of numpy, which this environment lacks."""

    zeros = staticmethod(lambda shape: Counts())

    def __missing__(self, key):
        return 0


def confusion():
    numpy = types.ModuleType("numpy")
    numpy.zeros = Counts.zeros
    run = wandb.init(project="p", entity="e", id="confusion")
    sys.modules["numpy"] = numpy
    wandb.util._not_importable.discard("numpy")
    made = wandb.plot.confusion_matrix(y_true=[0, 0, 1, 2, 2, 2], preds=[0, 1, 1, 0, 2, 2], class_names=["a", "b", "ç"],
                                       title="Validation: which classes are taken for which")
    del sys.modules["numpy"]
    run.log({"val/loss": 1, "confusion_matrix": made}, step=7)
    run.finish()


kinds = {"confusion": confusion, "rich": rich, "resumed": resumed, "long": long, "globs": globs, "artifacts": artifacts, "forked": forked,
         "rewound": rewound}
kinds[asked["kind"]]()
print("\n" + json.dumps(sorted(glob.glob("wandb/offline-run-*"))))
