// nanoGPT's recipe, a run's settings beside PyTorch as nanoGPT's train.py is written: the same weights to the last bit.
import { assert, assertEquals, assertNotEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { UserError } from "../../../core/base/errors.ts";
import { readPt } from "../../../core/checkpoint/pt.ts";
import { field, tensorBytes, type TensorData } from "../../../core/checkpoint/value.ts";
import { unwatched } from "../../../core/train/moments.ts";
import { takeStep } from "../../../core/train/step.ts";
import type { Trainer } from "../../../core/train/trainer.ts";
import { manualSeed, setThreads } from "../../../ffi/context.ts";
import { toNumbers } from "../../../ffi/make.ts";
import { randint } from "../../../ffi/ops.ts";
import { scope } from "../../../ffi/tensor.ts";
import { inFolder, python } from "../checkpoint/python.ts";
import { print } from "../models/native.ts";
import { peer } from "./peer.ts";
import { open } from "./rig.ts";
import { started } from "./started.ts";

open();
setThreads(1);

const SIZES = { vocabulary: 65, context: 32, layers: 2, heads: 2, embed: 32, batch: 4 };
const RECIPE = {
  steps: 100,
  lr: 1e-2,
  min_lr: 1e-4,
  warmup: 10,
  weight_decay: 0.1,
  betas: [0.9, 0.95],
  clip: 1,
  different: 4,
};

const FLAGS = [
  ...[
    "--model",
    "gpt",
    "--layers",
    "2",
    "--heads",
    "2",
    "--embed",
    "32",
    "--context",
    "32",
    "--dropout",
    "0",
  ],
  ...["--set", "model.vocab_size=65", "--train-samples", "40", "--val-samples", "4", "--batch-size", "4"],
  ...["--lr", "1e-2", "--min-lr", "1e-4", "--warmup", "10steps", "--max-steps", "100", "--epochs", "10"],
  ...["--weight-decay", "0.1", "--set", "training.optimizer.beta2=0.95", "--clip-norm", "1", "--seed", "7"],
];

/** The bits of an f32, as 8 hex digits. */
function bits(value: number): string {
  const view = new DataView(new ArrayBuffer(4));
  view.setFloat32(0, value);
  return view.getUint32(0).toString(16).padStart(8, "0");
}

interface Answer {
  readonly losses: string[];
  readonly weights: string[];
  readonly moments: string[];
}

/** The steps of a run that is open, with batches that the peer draws, too. */
async function steps(trainer: Trainer): Promise<Answer> {
  const { model, arena, optimizer, schedule } = trainer, nothing = () => {};
  const watch = { observe: nothing, pauses: { next: nothing, rest: nothing } };
  const tokens = () => randint(0, SIZES.vocabulary, [SIZES.batch, SIZES.context], "i64");
  const losses = Array.from({ length: RECIPE.steps }, (_, step) =>
    scope(() => {
      manualSeed(BigInt(1000 + step % RECIPE.different));
      const batches = [{ input: tokens(), target: tokens() }];
      const request = {
        batches,
        shares: [1],
        rate: schedule.rate({ step, plateau: undefined }),
        wantNorm: false,
        step,
        passes: 1,
      };
      const { loss, norm } = takeStep({ ...trainer, at: unwatched }, watch, request);
      norm!.free();
      const value = bits(loss.item());
      loss.free();
      return value;
    }));
  const squares = optimizer.slots.get("exp_avg_sq")!;
  const inOrder = model.root.namedParameters().map(([name]) => squares[arena.names.indexOf(name)]);
  return {
    losses,
    weights: await Promise.all(model.root.stateDict().map(([, t]) => print(t))),
    moments: await Promise.all(inOrder.map((t) => print(t))),
  };
}

const WAYS = [
  { title: "without biases, as nanoGPT's own models are", bias: false, more: ["--no-bias"] },
  { title: "with biases", bias: true, more: [] },
  { title: "compiled with exact bits", bias: false, more: ["--no-bias", "--compile=exact"] },
  {
    title: "its groups written out",
    bias: true,
    more: ["--no-decay", "none", "--param-group", "norms, biases: weight_decay=0"],
  },
];

const theirs = await peer<(Answer & { clipped: number })[]>(
  "nanogpt.py",
  WAYS.map(({ bias }) => ({ ...SIZES, ...RECIPE, bias, seed: 7 })),
);

WAYS.forEach(({ title, more }, i) =>
  Deno.test(
    `nanoGPT's recipe has PyTorch's losses and weights after 100 steps, to the last bit: ${title}`,
    inFolder(async (folder) => {
      const { clipped, ...expected } = theirs[i];
      assert(clipped > 10, `${clipped} steps were clipped`);
      await started(folder, [...FLAGS, ...more], async (run) => {
        assertStringIncludes(run.notes.join("\n"), "Weight decay: 0.1 for ");
        assertEquals(await steps(run), expected);
      });
      assertNotEquals(expected.losses[0], expected.losses.at(-1));
    }),
  )
);

/** A checkpoint of nanoGPT's train.py, compiled and with the masks that its models had before flash attention. */
const CHECKPOINT = `
import sys, torch
sys.path.insert(0, sys.argv[1])
import zoo_models
torch.manual_seed(5)
model = zoo_models.gpt(65, 32, 2, 2, 32, bias=False)
decay = [p for p in model.parameters() if p.dim() >= 2]
rest = [p for p in model.parameters() if p.dim() < 2]
optimizer = torch.optim.AdamW([{"params": decay, "weight_decay": 0.1}, {"params": rest, "weight_decay": 0.0}], lr=1e-3, betas=(0.9, 0.95))
for _ in range(3):
    optimizer.zero_grad()
    model(torch.randint(0, 65, (4, 32))).square().mean().backward()
    optimizer.step()
state = {f"_orig_mod.{name}": t for name, t in model.state_dict().items()}
state.update({f"_orig_mod.transformer.h.{i}.attn.bias": torch.ones(1, 1, 32, 32) for i in range(2)})
torch.save({"model": state, "optimizer": optimizer.state_dict(), "model_args": {"n_layer": 2, "bias": False},
            "iter_num": 3, "best_val_loss": torch.tensor(4.0), "config": {}}, sys.argv[2])
moments = {name: optimizer.state[p]["exp_avg"] for name, p in model.named_parameters()}
torch.save({"weights": dict(model.named_parameters()), "moments": moments}, sys.argv[3])
`;

Deno.test(
  "a run begins with weights of nanoGPT's without biases, and goes on from its checkpoint with both groups' moments",
  inFolder(async (folder) => {
    const zoo = new URL("../../../examples/python", import.meta.url).pathname, path = `${folder}/ckpt.pt`;
    python(CHECKPOINT, zoo, path, `${folder}/expected.pt`);
    using file = readPt(`${folder}/expected.pt`);
    const numbersAt = (...keys: string[]) => {
      const data = keys.reduce((value, key) => field(value, key)!, file.root) as TensorData;
      return [...new Float32Array(tensorBytes(data).slice().buffer)];
    };
    const holds = ({ model }: Trainer) => {
      for (const [name, t] of model.root.namedParameters()) {
        assertEquals([...toNumbers(t)], numbersAt("weights", name), name);
      }
    };
    await started(folder, [...FLAGS, "--no-bias", "--init-from", path], holds);
    await started(folder, [...FLAGS, "--no-bias"], (run) => {
      holds(run);
      assertEquals(run.optimizer.groups!.steps, [3, 3]);
      run.optimizer.slots.get("exp_avg")!.forEach((t, i) =>
        assertEquals([...toNumbers(t)], numbersAt("moments", run.arena.names[i]))
      );
    }, path);
    const error = await assertRejects(
      () => started(folder, [...FLAGS, "--init-from", path], holds),
      UserError,
    );
    assertStringIncludes(error.message, "--no-bias");
  }),
);
