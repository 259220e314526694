// Weights between a run of ours and Python's PyTorch, both ways, and between a run and eval: the same bits.
import { assertEquals, assertMatch } from "@std/assert";
import { join } from "paths";
import { python } from "../core/checkpoint/python.ts";
import { eventsOf, inTemp, succeed, TINY } from "./program.ts";

const DATA = ["--data-type=mnist", "--data-path=digits", "--train-samples=96", "--val-samples=40"];
const RUN = [...TINY, ...DATA, "--eval-batch-size=40", "--hidden-size=16"];

/** Images of noise, as idx files; what they show does not matter here. */
function writeDigits(folder: string): void {
  Deno.mkdirSync(folder);
  for (const [half, count] of [["train", 96], ["t10k", 40]] as const) {
    for (const dims of [[count, 28, 28], [count]]) {
      const bytes = new Uint8Array(4 + 4 * dims.length + dims.reduce((a, b) => a * b, 1));
      const view = new DataView(bytes.buffer);
      view.setUint32(0, 0x0800 + dims.length);
      dims.forEach((size, i) => view.setUint32(4 + 4 * i, size));
      const first = 4 + 4 * dims.length;
      for (let i = first; i < bytes.length; i++) {
        bytes[i] = Math.imul(i, 2654435761) >>> 24;
        if (dims.length === 1) bytes[i] %= 10;
      }
      const name = `${half}-${dims.length === 3 ? "images" : "labels"}-idx${dims.length}-ubyte`;
      Deno.writeFileSync(join(folder, name), bytes);
    }
  }
}

// What a user would write: torchvision's ToTensor and Normalize, a Sequential, its loss over the validation images.
const PEER = `
import sys, torch
from torch import nn
torch.set_num_threads(1)
path, written = sys.argv[1], sys.argv[2] == "write"
model = nn.Sequential(nn.Linear(784, 16), nn.ReLU(), nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 10))
if written:
    torch.manual_seed(5)
    for p in model.parameters(): nn.init.normal_(p, std=0.1)
    torch.save(model.state_dict(), path)
else:
    checkpoint = torch.load(path, weights_only=True)
    model.load_state_dict(checkpoint["model_state_dict"], strict=True)
    torch.optim.AdamW(model.parameters()).load_state_dict(checkpoint["optimizer_state_dict"])
x = torch.frombuffer(bytearray(open("digits/t10k-images-idx3-ubyte", "rb").read()[16:]), dtype=torch.uint8)
y = torch.frombuffer(bytearray(open("digits/t10k-labels-idx1-ubyte", "rb").read()[8:]), dtype=torch.uint8)
x = (x.view(40, 1, 28, 28).float() / 255 - 0.1307) / 0.3081
with torch.no_grad():
    output = model.eval()(x.flatten(1))
    print(repr(nn.functional.cross_entropy(output, y.long()).item()))
    print(repr((output.argmax(1) == y).double().mean().item()))
`;

function peer(cwd: string, ...args: string[]): number[] {
  const before = Deno.cwd();
  Deno.chdir(cwd);
  try {
    return python(PEER, ...args).trim().split("\n").map(Number);
  } finally {
    Deno.chdir(before);
  }
}

const lastEval = (cwd: string, name: string) => {
  const { val_loss, metrics } = eventsOf(cwd, name).findLast(({ kind }) => kind === "eval")!;
  return [val_loss, (metrics as { accuracy: number }).accuracy];
};

Deno.test("--init-from a state dict that Python wrote gives Python's loss to the last bit", () =>
  inTemp(async (cwd) => {
    writeDigits(join(cwd, "digits"));
    const expected = peer(cwd, "python.pt", "write");
    const { stdout } = await succeed([...RUN, "--run-name=r", "--init-from=python.pt", "--lr=0"], { cwd });
    assertMatch(stdout, /^Weights from python\.pt$/m);
    assertEquals(lastEval(cwd, "r"), expected);
  }));

Deno.test("Python loads a run's checkpoint with weights_only and strict, and gets the run's loss to the last bit", () =>
  inTemp(async (cwd) => {
    writeDigits(join(cwd, "digits"));
    await succeed([...RUN, "--run-name=r", "--epochs=3", "--lr=0.01"], { cwd });
    assertEquals(peer(cwd, "checkpoints/r_latest.pt", "read"), lastEval(cwd, "r"));
  }));

Deno.test("eval of a checkpoint gives the validation loss of the run that wrote it, to the last bit", () =>
  inTemp(async (cwd) => {
    for (
      const flags of [["--data-type=synthetic", "--dropout=0.2"], [
        "--model=gpt",
        "--context=8",
        "--embed=16",
      ]]
    ) {
      const run = [...TINY, ...flags, "--val-samples=13", "--run-name=r", "--epochs=2", "--lr=0.01"];
      await succeed(run, { cwd });
      const { stdout } = await succeed(["eval", "checkpoints/r_latest.pt", "--threads=1", "--json"], { cwd });
      const { val_loss, metrics, samples } = JSON.parse(stdout);
      const last = eventsOf(cwd, "r").findLast(({ kind }) => kind === "eval")!;
      assertEquals([val_loss, metrics, samples], [last.val_loss, last.metrics, 13]);
      for (const folder of ["logs", "checkpoints"]) Deno.removeSync(join(cwd, folder), { recursive: true });
    }
  }));

Deno.test("weights go to safetensors and back into a new run unchanged", () =>
  inTemp(async (cwd) => {
    const run = [...TINY, "--lr=0.01"];
    await succeed([...run, "--run-name=r"], { cwd });
    await succeed(["convert", "checkpoints/r_latest.pt", "weights.safetensors"], { cwd });
    await succeed([...run, "--run-name=s", "--init-from=weights.safetensors", "--lr=0"], { cwd });
    const [first, second] = ["r", "s"].map((name) =>
      eventsOf(cwd, name).findLast(({ kind }) => kind === "eval")!.val_loss
    );
    assertEquals(second, first);
  }));
