"""Gives the samples of a Python file to hpctrain: one process for each thread that reads data.

A request is a line of JSON: the split, the samples' numbers and the epoch. The rows go into a file in shared memory, and a
line of JSON says where and what they are.
"""

import importlib.util
import json
import os
import random
import signal
import sys
import threading
import traceback

GUARD = 'exec 4<&0; (read -r _; sleep 5; kill -9 -"$0") <&4 >/dev/null 2>&1 &'


def main():
    path, requests, replies, memory, settings, seed = sys.argv[1:7]
    replies, requests = open(replies, "w"), open(requests)  # their names go after the first answer
    memory = os.open(memory, os.O_RDWR)
    begin()
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
            rows, columns = batch(made[wanted["role"]], wanted["ids"], wanted["epoch"], int(seed), np)
            at, answer = 0, {"columns": columns} if columns else {}
            for name, array in rows.items():
                os.pwrite(memory, array.reshape(-1).view("u1").data if array.size else b"", at)
                answer[name] = {"dtype": str(array.dtype), "shape": array.shape, "at": at}
                at += array.nbytes
            say(answer)
        except BaseException as error:
            say({"error": place(error, path)})


def begin():
    """What the file starts ends as it would in any Python, and with hpctrain at the latest, however that ends.

    A signal to all processes of a job is for training alone, so the server heeds none; an ignored signal would stay
    ignored in every child, which then nothing but a kill ends. Workers are in the server's process group, and so is the
    guard, which ends the group a while after hpctrain: whoever can end by themselves have done so by then.
    """
    os.setpgid(0, 0)
    os.waitpid(os.posix_spawnp("sh", ["sh", "-c", GUARD, str(os.getpid())], os.environ), 0)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    for name in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2):
        signal.signal(name, lambda *_: None)
        signal.siginterrupt(name, False)
    signal.signal(signal.SIGQUIT, signal.SIG_DFL)  # a shell ignores it for what it starts in the background
    os.register_at_fork(before=forks, after_in_parent=forked, after_in_child=endable)


# By these a parent ends its child; by the others schedulers warn a whole job.
ENDS = (signal.SIGINT, signal.SIGTERM)
masks = threading.local()


def forks():
    """A child that is ended at once must not take the signal for one to the server."""
    masks.before = signal.pthread_sigmask(signal.SIG_BLOCK, ENDS)


def forked():
    signal.pthread_sigmask(signal.SIG_SETMASK, masks.before)


def endable():
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    forked()


def module_of(path):
    """The file as a module under its own name, so that what is in it can be pickled for other processes.

    It is compiled from its text and never taken from a cache, which its hash says nothing about.
    """
    name = os.path.splitext(os.path.basename(path))[0]
    name = name if name not in sys.modules else "__hpctrain_data__"
    module = importlib.util.module_from_spec(importlib.util.spec_from_file_location(name, path))
    sys.modules[name] = module
    with open(path, "rb") as file:
        exec(compile(file.read(), path, "exec"), module.__dict__)
    return module


def opened(path, settings, seed):
    sys.path.insert(0, os.path.dirname(os.path.abspath(path)))
    found = vars(module_of(path))
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
    """The rows of these samples, and how several inputs lie in them: by the samples' own `batch(ids, epoch)`, else one by one."""
    if hasattr(samples, "batch"):
        seeded(seed, epoch, ids[0])
        names, given = parts(samples.batch(ids, epoch))
        fields = [np.asarray(field) for field in given]
    else:
        rows = []
        for i in ids:
            seeded(seed, epoch, i)
            names, sample = parts(samples[i])
            rows.append(sample)
        if any(len(row) != len(rows[0]) for row in rows):
            raise Mistake("some samples have a target and some have none")
        fields = [stacked([np.asarray(row[k]) for row in rows], ids, np) for k in range(len(rows[0]))]
    if names is None:
        return {name: plain(field, np) for name, field in zip(("input", "target"), fields)}, None
    inputs, columns = beside(names, fields[: len(names)], np)
    return {"input": inputs} | {"target": plain(field, np) for field in fields[len(names) :]}, columns


def parts(sample):
    """The names of several inputs (else None), and all parts in order: of (input, target) or ({"a": a, "b": b}, target)."""
    given = tuple(sample) if isinstance(sample, (tuple, list)) else (sample,)
    if not 1 <= len(given) <= 2:
        raise Mistake(
            f"a sample has {len(given)} parts, and should be (input, target); several inputs go together as "
            '({"left": a, "right": b}, target)'
        )
    inputs, *target = given
    return (list(inputs), (*inputs.values(), *target)) if isinstance(inputs, dict) else (None, given)


MOST_WHOLE = 2**24


def beside(names, fields, np):
    """Several inputs side by side as float32, and each one's name and shape."""
    for name, field in zip(names, fields):
        if field.dtype.kind in "iu" and field.size and abs(field).max() > MOST_WHOLE:
            raise Mistake(f"its input {name} has whole numbers above {MOST_WHOLE}, which can't lie beside other inputs")
    columns = [
        {"name": name, "shape": list(field.shape[1:]), "whole": field.dtype.kind in "iub"} for name, field in zip(names, fields)
    ]
    flat = [plain(field, np).reshape(len(field), -1).astype("float32") for field in fields]
    return np.ascontiguousarray(np.concatenate(flat, 1)), columns


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
