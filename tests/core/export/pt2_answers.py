"""Answers of exported programs beside those that were written with them, by torch.export: python pt2_answers.py FOLDER"""

import glob
import json
import sys

import numpy
import torch

torch.set_num_threads(1)
differences = {}
for path in sorted(glob.glob(f"{sys.argv[1]}/*.pt2")):
    base = path[: -len(".pt2")]
    about = json.load(open(f"{base}.json"))
    module = torch.export.load(path).module()
    kind = "int64" if about["whole"] else "float32"
    given = torch.from_numpy(numpy.fromfile(f"{base}.in", dtype=kind).reshape(about["input"]))
    wanted = torch.from_numpy(numpy.fromfile(f"{base}.out", dtype="float32").reshape(about["output"]))
    with torch.no_grad():
        found = module(given)
    assert found.shape == wanted.shape, (about["title"], found.shape, wanted.shape)
    differences[about["title"]] = float((found - wanted).abs().max() / wanted.abs().max())
print(json.dumps(differences))
