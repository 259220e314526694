"""Gives the samples of a Python file to hpctrain: one process for each thread that reads data.

A request is a line of JSON: the split, the samples' numbers and the epoch. The rows go into a file in shared memory, and a
line of JSON says where and what they are.
"""

import json
import os
import random
import runpy
import sys
import traceback


def main():
    path, requests, replies, memory, settings, seed = sys.argv[1:7]
    replies, requests = open(replies, "w"), open(requests)  # their names go after the first answer
    memory = os.open(memory, os.O_RDWR)
    say = lambda answer: (replies.write(json.dumps(answer) + "\n"), replies.flush())  # noqa: E731
    made = None
    try:
        made = opened(path, json.loads(settings), int(seed))
        import numpy as np

        say({name: made[name] for name in ("task", "outputs")} | {s: length(made, s) for s in ("train", "val")})
    except BaseException as error:  # also SystemExit
        say({"error": place(error, path)})
        return
    for line in requests:
        try:
            wanted = json.loads(line)
            rows = batch(made[wanted["role"]], wanted["ids"], wanted["epoch"], int(seed), np)
            at, answer = 0, {}
            for name, array in rows.items():
                os.pwrite(memory, array.reshape(-1).view("u1").data if array.size else b"", at)
                answer[name] = {"dtype": str(array.dtype), "shape": array.shape, "at": at}
                at += array.nbytes
            say(answer)
        except BaseException as error:
            say({"error": place(error, path)})


def opened(path, settings, seed):
    sys.path.insert(0, os.path.dirname(os.path.abspath(path)))
    found = runpy.run_path(path)
    if not callable(found.get("data")):
        raise Mistake("it has no function data(settings, seed)")
    seeded(seed)
    made = found["data"](settings, seed)
    if not isinstance(made, dict) or "train" not in made:
        raise Mistake(f"data() gave {made!r:.100}, and not a dict with task, outputs, train and val")
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(1)
    return {"task": None, "outputs": None, "val": None} | made


def length(made, split):
    return None if made[split] is None else len(made[split])


class Mistake(Exception):
    pass


def batch(samples, ids, epoch, seed, np):
    """The rows of these samples: by the samples' own `batch(ids, epoch)`, else one by one."""
    if hasattr(samples, "batch"):
        seeded(seed, epoch, ids[0])
        given = samples.batch(ids, epoch)
        given = given if isinstance(given, (tuple, list)) else (given,)
        fields = [np.asarray(field) for field in given]
    else:
        rows = []
        for i in ids:
            seeded(seed, epoch, i)
            sample = samples[i]
            rows.append(sample if isinstance(sample, (tuple, list)) else (sample,))
        if any(len(row) != len(rows[0]) for row in rows):
            raise Mistake("some samples have a target and some have none")
        fields = [stacked([np.asarray(row[k]) for row in rows], ids, np) for k in range(len(rows[0]))]
    if not 1 <= len(fields) <= 2:
        raise Mistake(f"a sample has {len(fields)} parts, and should be (input, target)")
    return {name: plain(field, np) for name, field in zip(("input", "target"), fields)}


def stacked(arrays, ids, np):
    for i, array in zip(ids, arrays):
        if array.shape != arrays[0].shape:
            raise Mistake(
                f"sample {ids[0]} has the shape {list(arrays[0].shape)} and sample {i} {list(array.shape)}: "
                "all must be alike, so pad or cut them"
            )
    return np.stack(arrays)


def plain(array, np):
    """Numbers become float32, whole numbers int64, bytes stay."""
    kind = array.dtype.kind
    if kind == "f":
        wanted = "float32"
    elif array.dtype == "uint8" or kind == "b":
        wanted = "uint8"
    elif kind in "iu":
        wanted = "int64"
    else:
        raise Mistake(f"a sample is of {array.dtype}, and not of numbers")
    return np.ascontiguousarray(array, wanted)


def seeded(*numbers):
    """What a sample draws follows from the seed, the epoch and its number, in whichever process it is read."""
    state = 0
    for number in numbers:
        state = (state ^ (number + 0x9E3779B9)) * 0x85EBCA6B % 2**32
    random.seed(state)
    for name, seed in (("numpy", lambda np: np.random.seed(state)), ("torch", lambda torch: torch.manual_seed(state))):
        if name in sys.modules:
            seed(sys.modules[name])


def place(error, path):
    """The innermost line of the user's file, and what went wrong there."""
    if isinstance(error, Mistake):
        return f"{path}: {error}"
    if isinstance(error, SyntaxError) and error.filename:
        return f"{error.filename}:{error.lineno}: {error.msg}"
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == path]
    at = f"{path}:{frames[-1].lineno}" if frames else path
    return f"{at}: {type(error).__name__}: {error}"


main()
