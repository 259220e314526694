// Runs that go on from checkpoints of PyTorch programs, with weights, optimizer and epoch as Python left them.
import { assertEquals, assertMatch, assertThrows } from "@std/assert";
import { adopt } from "../../../core/checkpoint/adopt.ts";
import { readPt, writePt } from "../../../core/checkpoint/pt.ts";
import { loadTraining, type StateParts, toTree } from "../../../core/checkpoint/training_state.ts";
import type { Value } from "../../../core/checkpoint/value.ts";
import { UserError } from "../../../core/base/errors.ts";
import { mlp } from "../../../core/models/zoo/mlp.ts";
import { manualSeed } from "../../../ffi/context.ts";
import { open, rig, rows } from "../train/rig.ts";
import { python } from "./python.ts";
import { assertSentence } from "../../sentences.ts";

open();

/** Three steps of stock PyTorch, saved in the ways of tutorials, Lightning and nanoGPT. */
const WRITE = `
import sys, torch
folder = sys.argv[1]
torch.manual_seed(3)
model = torch.nn.Sequential(torch.nn.Linear(7, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))
named = list(model.named_parameters())
decay, rest = [p for n, p in named if p.dim() > 1], [p for n, p in named if p.dim() < 2]
made = {
    "adamw": torch.optim.AdamW(model.parameters()),
    "sgd": torch.optim.SGD(model.parameters(), 1e-3, momentum=0.9),
    "groups": torch.optim.AdamW([{"params": decay}, {"params": rest}]),
    "amsgrad": torch.optim.AdamW(model.parameters(), amsgrad=True),
    "named": torch.optim.AdamW([{"params": named[2:]}, {"params": named[:2]}]),
}
x, y = torch.randn(4, 7), torch.randn(4, 1)
for name, optimizer in made.items():
    for _ in range(3):
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(model(x), y).backward()
        optimizer.step()
    whole = {"epoch": 5, "model_state_dict": model.state_dict(), "optimizer_state_dict": optimizer.state_dict(),
             "val_loss": 0.25, "scaler_state_dict": {"scale": 2.0, "_growth_tracker": 1}}
    torch.save(whole, f"{folder}/{name}.pt")
torch.save({"state_dict": model.state_dict(), "optimizer_states": [made["adamw"].state_dict()], "global_step": 31},
           f"{folder}/lightning.pt")
torch.save(model.state_dict(), f"{folder}/bare.pt")
model = torch.nn.Sequential(torch.nn.Linear(7, 8), *(torch.nn.Linear(8, 8) for _ in range(2)), torch.nn.Linear(8, 1))
alike = list(model.parameters())
optimizer = torch.optim.AdamW([{"params": alike[:4]}, {"params": alike[4:]}])
model(x).sum().backward()
optimizer.step()
named = zip(["0.weight", "0.bias", "2.weight", "2.bias", "4.weight", "4.bias", "6.weight", "6.bias"], alike)
torch.save({"model": {name: p.detach() for name, p in named}, "optimizer": optimizer.state_dict()}, f"{folder}/alike.pt")
`;

/** Every weight and moment of ours is the one in the other file; moments by the order of the model's parameters. */
const COMPARE = `
import sys, torch
def compare(ours, theirs, order):
    ours, theirs = (torch.load(path, weights_only=True) for path in (ours, theirs))
    weights = theirs.get("model_state_dict", theirs.get("state_dict", theirs))
    assert weights.keys() == ours["model_state_dict"].keys()
    for name, t in weights.items():
        assert torch.equal(t, ours["model_state_dict"][name]), name
    old = theirs["optimizer_state_dict"] if "optimizer_state_dict" in theirs else theirs["optimizer_states"][0]
    new = ours["optimizer_state_dict"]
    for i, key in enumerate(order):
        assert old["state"][key].keys() == new["state"][i].keys()
        for slot, value in old["state"][key].items():
            assert torch.equal(torch.as_tensor(value), torch.as_tensor(new["state"][i][slot])), (i, slot)
for name, order in zip(sys.argv[2::2], sys.argv[3::2]):
    compare(f"{sys.argv[1]}/ours-{name}.pt", f"{sys.argv[1]}/{name}.pt", [int(i) for i in order.split(",")])
print("equal")
`;

function made(optimizer: string, layers = 1): StateParts {
  manualSeed(1n);
  const model = mlp({ inputs: 7, hidden: 8, layers, outputs: 1 });
  const { arena, step } = rig(model, rows, { flags: ["--optimizer", optimizer] });
  const stateDict = model.root.stateDict();
  return { names: arena.names, stateDict, optimizer: step.optimizer, scaler: null, ema: null };
}

function load(path: string, parts: StateParts, force = false) {
  using file = readPt(path);
  const { root, notices } = adopt(file.root, path, { parts, stepsPerEpoch: 10, samples: 75, force });
  const { cursor, notices: more } = loadTraining(parts, root, path);
  return { cursor, said: notices.join("\n"), more };
}

const FACTS = {
  version: "1",
  run: "r",
  seed: 0,
  learningRate: 1e-3,
  scheduler: { state: {}, group: {} },
  config: {},
};
/** What a run that goes on from this file would save now. */
function saved(folder: string, name: string, optimizer: string) {
  const parts = made(optimizer);
  const { cursor, said, more } = load(`${folder}/${name}.pt`, parts);
  writePt(`${folder}/ours-${name}.pt`, toTree(parts, cursor, FACTS));
  return { cursor, said, more, steps: parts.optimizer.steps };
}

Deno.test("a run goes on from what PyTorch programs saved", async (t) => {
  const folder = Deno.makeTempDirSync();
  const step = (name: string, body: () => void) => t.step(name, body);
  try {
    python(WRITE, folder);
    await step("with the epochs that are done, the best loss, and the optimizer's own count of steps", () => {
      const place = { epoch: 5, step: 50, stepInEpoch: 0, samples: 375, sums: [] };
      const { cursor, said, steps } = saved(folder, "adamw", "adamw");
      assertEquals(cursor, { ...place, best: { epoch: 5, valLoss: 0.25 }, valLoss: 0.25 });
      assertEquals(steps, 3);
      assertSentence("core/checkpoint/adopt: written hpctrain settings", said);
      assertSentence("core/checkpoint/adopt: adamw state after", said);
      assertEquals(saved(folder, "sgd", "sgd").steps, 1, "SGD counts none, and has begun");
      const { cursor: lightning } = saved(folder, "lightning", "adamw");
      assertEquals([lightning.epoch, lightning.best], [0, null], "3 steps are no epoch of 10");
      saved(folder, "named", "adamw");
      assertEquals(
        saved(folder, "groups", "adamw").steps,
        3,
        "groups of matrices and of the rest, by their shapes",
      );
    });
    await step("with a warning where the optimizer kept more than it does here, as with amsgrad", () => {
      const { more } = saved(folder, "amsgrad", "adamw");
      assertMatch(
        more.join("\n"),
        /Warning: adamw here keeps no max_exp_avg_sq, which \S+ has: it is left out\. It is amsgrad's, which --set training\.optimizer\.amsgrad=true/,
      );
    });
    await step(
      "with all weights and moments to the last bit, groups of parameters in their places",
      () => {
        const files = ["adamw", "sgd", "lightning"].flatMap((name) => [name, "0,1,2,3"]);
        assertEquals(
          python(COMPARE, folder, ...files, "named", "2,3,0,1", "groups", "0,2,1,3").trim(),
          "equal",
        );
      },
    );
    await step("at epoch 0, where there is nothing but weights", () => {
      const parts = made("adamw");
      const { cursor, said } = load(`${folder}/bare.pt`, parts);
      assertEquals([cursor.epoch, cursor.step, parts.optimizer.steps], [0, 0, 0]);
      assertSentence("core/checkpoint/adopt: bare holds weights", said);
    });
    for (
      const [name, optimizer, why] of [
        [
          "alike",
          "adamw",
          /it has 2 groups of parameters without names, and shapes leave open which are which/,
        ],
        ["groups", "sgd", /it has 2 groups of parameters without names, which don't fit this model's/],
        ["adamw", "sgd", /0\.weight has step, exp_avg, exp_avg_sq, and no momentum_buffer/],
        ["sgd", "adamw", /0\.weight has momentum_buffer, and no exp_avg/],
      ] as const
    ) {
      await step(
        `not where ${optimizer} can't place the optimizer state of ${name}.pt, but with --force`,
        () => {
          const path = `${folder}/${name}.pt`, parts = made(optimizer, name === "alike" ? 3 : 1);
          const error = assertThrows(() => load(path, parts), UserError);
          assertEquals(error.kind, "checkpoint");
          assertMatch(error.message, why);
          assertMatch(error.message, /: --force\.$/);
          const { cursor, said } = load(path, parts, true);
          assertEquals([cursor.epoch, parts.optimizer.steps], [name === "alike" ? 0 : 5, 0]);
          assertSentence("core/checkpoint/adopt: optimizer state optimizer", said);
        },
      );
    }
    await step("our own of another optimizer: that one begins anew with --force, where it was", () => {
      const { cursor } = saved(folder, "adamw", "adamw");
      const other = made("sgd"), path = `${folder}/ours-adamw.pt`;
      assertThrows(() => load(path, other), UserError, "--optimizer adamw");
      const forced = load(path, other, true);
      assertEquals(forced.cursor, cursor);
      assertEquals(other.optimizer.steps, 0);
      assertSentence("core/checkpoint/adopt: state adamw left", forced.said);
    });
  } finally {
    Deno.removeSync(folder, { recursive: true });
  }
});

Deno.test("Prodigy goes on with the distance that its program's group has", () => {
  const theirs = made("prodigy"), ours = made("prodigy"), found = { d: 0.25, d_max: 0.5, d_numerator: 1.5 };
  Object.assign(theirs.optimizer.numbers!, found);
  theirs.optimizer.steps = 3;
  const place = { epoch: 0, step: 3, stepInEpoch: 3, samples: 24, sums: [], best: null, valLoss: null };
  const root = toTree(theirs, place, FACTS) as Map<string, Value>;
  root.delete("hpctrain"); // another program's has none
  const run = { parts: ours, stepsPerEpoch: 10, samples: 75, force: false };
  loadTraining(ours, adopt(root, "prodigy.pt", run).root, "prodigy.pt");
  assertEquals([ours.optimizer.numbers, ours.optimizer.steps], [found, 3]);
});
