"""Writes scikit-learn's handwritten digits as idx files, a fifth of them held out; prints how many those are."""
import json
import struct
import sys

import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split


def idx(path, values):
    with open(path, "wb") as file:
        file.write(struct.pack(f">I{values.ndim}I", 0x0800 + values.ndim, *values.shape))
        file.write(values.astype(np.uint8).tobytes())


folder = json.load(sys.stdin)
digits = load_digits()
images = np.round(digits.images * 255 / 16)  # they have 17 shades
parts = train_test_split(images, digits.target, test_size=0.2, random_state=0, stratify=digits.target)
names = ["train-images-idx3", "t10k-images-idx3", "train-labels-idx1", "t10k-labels-idx1"]
for name, values in zip(names, parts):
    idx(f"{folder}/{name}-ubyte", values)
json.dump(len(parts[1]), sys.stdout)
