# Data for hpctrain. Train with it: hpctrain --data FILE
# It runs in the Python that --data-python names, by default the python3 on PATH: in each thread that reads data
# (--num-workers) once, with what you have installed there.
import numpy as np


class Circles:
    """Points of a square, and whether they lie in a circle. A torch Dataset, or any object with these two, will do."""

    def __init__(self, count, first):
        self.count, self.first = count, first

    def __len__(self):
        return self.count

    def __getitem__(self, i):  # (input, target): numpy arrays, torch tensors or numbers
        point = np.random.default_rng(self.first + i).uniform(-1, 1, 2)
        return point, int(np.hypot(*point) < 0.5)

    # Faster, where rows can be made together: def batch(self, ids, epoch), which gives (inputs, targets).


# Called once in each process; it gives the same each time. `settings` has data_path (--data-path), train_samples and
# val_samples. random, numpy and torch are seeded before each sample, from the seed, the epoch and the sample's number.
def data(settings, seed):
    count = settings["train_samples"]
    return {
        "task": "classification",  # or regression, language, segmentation
        "outputs": 2,  # classes; numbers to predict; tokens there are
        "train": Circles(count, 0),
        "val": Circles(settings["val_samples"], count),
    }
