"""Times training steps on this machine's GPU by command line: hpctrain's own processes, with their events as the clock, and
the same model in a PyTorch script (peer.py). Needs a Python with torch, and no network.

    python3 bench/gpu/measure.py HPCTRAIN [ROW | ROW/WAY ...]

What was measured is not measured again unless it is named, so a run that was cut off goes on. Results go to
bench/results/gpusteps-DEVICE.json; `./scripts/bench gpu` writes a page of them."""
import datetime
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
COMMON = "--device cuda --no-wandb --log-interval 2"  # steps within an epoch, of which some rows have ten
GPT2 = "--model gpt --layers 12 --embed 768 --heads 12 --context 1024 --set model.vocab_size=50304"
# What to train, samples a step, items a sample; with which flags beside, and how PyTorch does it.
ROWS = {
    "gpt2": ("GPT-2 124M, 16 x 1024 tokens", f"{GPT2} --train-samples 1280 --val-samples 16 --epochs 1", 16, 1024),
    "gpt2-32": ("GPT-2 124M, 32 x 1024 tokens", f"{GPT2} --train-samples 2560 --val-samples 16 --epochs 1", 32, 1024),
    "llama": ("Llama 12 x 768 of a .pt2, 16 x 1024 tokens", "--epochs 8", 16, 1024),
    "bert": ("BERT-base of a .pt2, 32 x 128 tokens", "--epochs 2", 32, 128),
    "vit": ("ViT-S/16 of a .pt2, 128 x 3 x 224 x 224", "--epochs 8", 128, 1),
    "resnet50": ("ResNet-50 (torchvision's) of a .pt2, 64 x 3 x 224 x 224", "--epochs 4", 64, 1),
    "convnext": ("ConvNeXt-T (timm's) of a .pt2, 64 x 3 x 224 x 224", "--epochs 4", 64, 1),
    "efficientnet": ("EfficientNet-B0 (timm's) of a .pt2, 64 x 3 x 224 x 224", "--epochs 4", 64, 1),
}
OURS = {"as it comes": "", "captured": "--compile=exact", "op by op": "--no-compile"}
PEERS = {"eager": "eager", "torch.compile": "compile", "reduce-overhead": "reduce-overhead"}
WAYS = [*OURS, *PEERS]
LIMIT_S = 150


def flags_of(row):
    _, flags, batch, _ = ROWS[row]
    own = f"{COMMON} --batch-size {batch} {flags}"
    if row.startswith("gpt2"):
        return own
    return f"--model {row}.pt2 --data-path {row}.npz --features x --targets y --loss cross_entropy {own}"


def exported(row, folder):
    if row.startswith("gpt2") or (folder / f"{row}.npz").exists():
        return
    subprocess.run([sys.executable, HERE / "models.py", row, folder / f"{row}.pt2"], check=True, capture_output=True)


def run(command, folder):
    """Its output, or why there is none."""
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=LIMIT_S)
    except subprocess.TimeoutExpired:
        return None, f"not done in {LIMIT_S} s"
    said = done.stdout + done.stderr
    return (said, None) if done.returncode == 0 else (None, said.strip().splitlines()[-1][:300])


def ours(exe, row, way, folder):
    name = f"{row}-{way.replace(' ', '-')}"
    flags = f"{flags_of(row)} {OURS[way]}".strip()
    said, failed = run([exe, *flags.split(), "--run-name", name], folder)
    found = {"command": f"hpctrain {flags}"}
    if failed:
        return {**found, "failed": failed}
    events = [json.loads(line) for line in open(folder / "logs" / name / "events.jsonl")]
    steps = [e for e in events if e["kind"] == "step"]
    pairs = [(b["t"] - a["t"], b["step"] - a["step"], b["epoch"] == a["epoch"]) for a, b in zip(steps, steps[1:])]
    late = [t / n for t, n, within in pairs[len(pairs) // 2 :] if within] or [t / n for t, n, _ in pairs]
    epochs = [e for e in events if e["kind"] == "epoch"]
    return {
        **found,
        "ms": round(1000 * sorted(late)[len(late) // 2], 3),
        "first_steps_s": round(next(e["t"] for e in steps if e["step"] >= 10) - events[0]["t"], 2),  # ten of them
        "memory_mib": max(e.get("memory_bytes", 0) for e in steps) >> 20,  # in the steps behind which it was read
        "mfu": next((e["mfu"] for e in reversed(epochs) if "mfu" in e), None),
        "compiled": bool(re.search("^Steps are compiled", said, re.M)),
        "said": [line for line in said.splitlines() if re.match("Steps are|warning", line)][:4],
    }


def peer(row, way, folder):
    _, _, batch, _ = ROWS[row]
    command = ["peer.py", row.removesuffix("-32"), str(batch), PEERS[way]]
    said, failed = run([sys.executable, HERE / command[0], *command[1:]], folder)
    found = {"command": f"python3 bench/gpu/{' '.join(command)}"}
    return {**found, "failed": failed} if failed else {**found, **json.loads(said.strip().splitlines()[-1])}


def device():
    query = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
    name, driver = subprocess.run(query, check=True, capture_output=True, text=True).stdout.splitlines()[0].split(", ")
    import torch

    today = datetime.date.today().isoformat()
    return {"device": name, "driver": driver, "torch": torch.__version__, "date": today}


def main():
    exe, named = os.path.abspath(sys.argv[1]), sys.argv[2:]
    found = device()
    out = HERE.parent / "results" / f"gpusteps-{re.sub('[^a-z0-9]+', '-', found['device'].lower())}.json"
    known = json.loads(out.read_text()) if out.exists() else {"rows": {}}
    results = {**found, "rows": known["rows"] if known.get("torch") == found["torch"] else {}}
    rows = results["rows"]
    wanted = [cell_of(word) for word in named] or [(row, way) for row in ROWS for way in WAYS]
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(os.environ.get("HPCTRAIN_BENCH_DATA", folder))
        for row, way in [(row, one) for row, way in wanted for one in ([way] if way else WAYS)]:
            title, _, batch, items = ROWS[row]
            unit = "tokens" if items > 1 else "images"
            ways = rows.setdefault(row, {"title": title, "items": batch * items, "unit": unit, "ways": {}})["ways"]
            if way in ways and not named:
                continue
            exported(row, folder)
            ways[way] = ours(exe, row, way, folder) if way in OURS else peer(row, way, folder)
            print(row, way, {k: v for k, v in ways[way].items() if k != "command"}, flush=True)
            out.write_text(json.dumps(results, indent=2) + "\n")


def cell_of(word):
    row, _, way = word.partition("/")
    return row, way or None


if __name__ == "__main__":
    main()
