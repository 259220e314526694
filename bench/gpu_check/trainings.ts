// Checks of training by the whole program: each model in each precision, and each feature that has a GPU's path, to the
// CPU's losses, with steps captured as a CUDA graph and as they are.
import { join } from "paths";
import { type Check, type Context, type Outcome, relative } from "./check.ts";
import { failed, fromEvents } from "./runs.ts";

/** Dropout's draws on a GPU are other than the CPU's: without it there is one right answer. */
const COMMON = "--batch-size 4 --val-samples 8 --log-interval 1 --no-tf32 --no-wandb --dropout 0 --lr 3e-4";
/** After three steps one is captured, and the next ones are replayed. */
const SIZES = { full: "--train-samples 32 --epochs 2", quick: "--train-samples 20 --epochs 1" };
/**
 * AdamW's first steps are the signs of gradients, which rounding changes where they are next to nothing; and where batch
 * norm is over few samples rounding grows from step to step.
 */
const GENTLE = "--optimizer sgd --lr 1e-5 --channels-last off";
const GPT = "--model gpt --layers 2 --hidden-size 64 --heads 4 --context 32";

/** Their batches are large enough for batch norm, but for a rehearsal, which is short. */
const NORMED = ["resnet18", "resnet50", "unet", "cosmo-cnn"];
const BATCHES = "--batch-size 16 --train-samples 128 --epochs 1";

const MODELS: Readonly<Record<string, string>> = {
  mlp: "--model mlp",
  "simple-convnet": "--model simple-convnet",
  resnet18: `--model resnet18 ${GENTLE}`,
  resnet50: `--model resnet50 ${GENTLE}`,
  unet: `--model unet --set model.width=8 ${GENTLE}`,
  "cosmo-cnn": `--model cosmo-cnn --set model.width=4 ${GENTLE}`,
  vit: "--model vit",
  fno: "--model fno",
  gpt: GPT,
};

/** Losses of fp32 differ from the CPU's by rounding; those of bf16 and fp16 by their own, which batch norm makes larger. */
const APART = { off: 1e-3, bf16: 5e-2, fp16: 2e-2 } as const;
const NORMED_APART = 0.1;
type Precision = keyof typeof APART;
/** So many steps of halves are compared: their rounding grows. In a deep model with batch norm any rounding does. */
const FIRST = 5, FIRST_OF_DEEP = 2;
const DEEP = ["resnet50"];
/** A scale at which no step is left out. */
const SCALE = "--set training.loss_scale_init=256";

type Way = "cpu" | "plain" | "captured" | "fused";
const WAYS: Readonly<Record<Way, string>> = {
  cpu: "--device cpu",
  plain: "--device cuda --no-compile",
  captured: "--device cuda --compile=exact",
  fused: "--device cuda --compile=fast",
};

interface Told {
  /** The steps' and then the evaluations'. */
  readonly losses: readonly number[];
  readonly steps: readonly number[];
  readonly evaluations: readonly number[];
  readonly replayed: boolean;
  /** Groups of the program's own took part in them; or why not. */
  readonly compiled: true | string;
}

/** Losses of a run, or why there are none. */
async function train(c: Context, name: string, flags: string, run = "run"): Promise<Told | Outcome> {
  const folder = `train-${name}`;
  const args = `${COMMON} ${SIZES[c.quick ? "quick" : "full"]} ${flags} --run-name ${run}`;
  const ended = await c.program.again(folder, args.split(" ").filter((word) => word !== ""));
  if (ended.code !== 0) return failed(ended);
  const of = (kind: string, field: string) => fromEvents(c.program, folder, run, kind, field);
  const steps = of("step", "loss"), evaluations = of("eval", "val_loss");
  return {
    losses: [...steps, ...evaluations],
    steps,
    evaluations,
    replayed: ended.out.includes("Steps are replayed as a CUDA graph"),
    compiled: ended.out.includes("Steps are compiled: ") ||
      (/^warning: (.*op by op.*)$/m.exec(ended.out + ended.err)?.[1] ?? "it does not say why"),
  };
}

const isOutcome = (told: Told | Outcome): told is Outcome => "ok" in told;

/**
 * Captured and as they are, deterministic so that bits can be compared; without that where an op has no deterministic
 * kernel. Where plain runs differ from each other too, capture is not to blame.
 */
async function bothWays(
  c: Context,
  name: string,
  flags: string,
): Promise<{ plain: Told; words: string } | Outcome> {
  let own = `${flags} --deterministic`, bits = true;
  let plain = await train(c, `${name}-plain`, `${own} ${WAYS.plain}`);
  if (isOutcome(plain)) {
    [own, bits] = [flags, false];
    plain = await train(c, `${name}-plain-again`, `${own} ${WAYS.plain}`);
    if (isOutcome(plain)) return plain;
  }
  const captured = await train(c, `${name}-captured`, `${own} ${WAYS.captured}`);
  if (isOutcome(captured)) return captured;
  if (!captured.replayed) return { ok: false, figure: "its steps were not captured" };
  if (`${captured.losses}` === `${plain.losses}`) return { plain, words: "captured the same bits" };
  const again = await train(c, `${name}-plain-twice`, `${own} ${WAYS.plain}`);
  if (isOutcome(again)) return again;
  const apart = relative(captured.losses, plain.losses), among = relative(again.losses, plain.losses);
  const detail = { plain: plain.losses, captured: captured.losses, again: again.losses };
  const figure = `captured ${apart.toExponential(1)} apart`;
  const unlike = `${again.losses}` !== `${plain.losses}`;
  if (bits && !unlike || apart > Math.max(1e-2, 2 * among)) {
    return { ok: false, figure: `${figure}, plain runs ${among.toExponential(1)}`, detail };
  }
  return {
    plain,
    words: `${figure}, ${unlike ? "as plain runs are too" : "with kernels that may differ each time"}`,
  };
}

const firstOf = (model: string): number => DEEP.includes(model) ? FIRST_OF_DEEP : FIRST;

/** Their ops have no rule: no plan can be made. */
const UNPLANNED = ["fno"];

/** Groups of the program's own beside libtorch's kernels. In half precision rounding may be too much for the comparison. */
async function fused(c: Context, name: string, flags: string, amp: Precision, plain: Told, limit: number) {
  const told = await train(c, `${name}-fused`, `${flags} ${WAYS.fused}`);
  if (isOutcome(told)) return { ok: false, words: `compiled: ${told.figure}` };
  if (told.compiled !== true) {
    return {
      ok: amp !== "off" || UNPLANNED.includes(name.split("-")[0]),
      words: `not compiled: ${told.compiled}`,
    };
  }
  if (!told.replayed) return { ok: false, words: "compiled steps were not captured" };
  const first = firstOf(name.split("-")[0]);
  const apart = relative(told.steps.slice(0, first), plain.steps.slice(0, first));
  return { ok: apart <= limit, words: `compiled ${apart.toExponential(1)} apart` };
}

const modelCheck = (name: string, flags: string): Check => ({
  name: `${name} in three precisions to the CPU's losses, captured and not, and compiled`,
  gpuOnly: true,
  beside: true,
  async run(c) {
    const normed = NORMED.includes(name), own = normed && !c.quick ? `${flags} ${BATCHES}` : flags;
    const here = await train(c, `${name}-cpu`, `${own} --amp off ${WAYS.cpu}`);
    if (isOutcome(here)) return here;
    const words: string[] = [], detail: Record<string, readonly number[]> = { cpu: here.losses };
    let ok = true;
    // The rehearsal is not the place to try every model's kernels: the suite does on its stand-in.
    const precisions: Precision[] = c.quick && !["mlp", "gpt"].includes(name)
      ? ["off"]
      : ["off", "bf16", "fp16"];
    for (const amp of precisions) {
      const both = await bothWays(
        c,
        `${name}-${amp}`,
        `${own} --amp ${amp} ${amp === "fp16" ? SCALE : ""}`,
      );
      if (!("plain" in both)) return { ...both, figure: `${amp}: ${both.figure}` };
      const half = amp !== "off", limit = half && normed ? NORMED_APART : APART[amp];
      const [there, reference] = half || DEEP.includes(name)
        ? [both.plain, here].map(({ steps }) => steps.slice(0, firstOf(name)))
        : [both.plain.losses, here.losses];
      const apart = relative(there, reference);
      ok &&= apart <= limit;
      detail[amp] = both.plain.losses;
      const type = amp === "off" ? "fp32" : amp;
      const given = `${own} --amp ${amp} ${amp === "fp16" ? SCALE : ""}`;
      const ours = await fused(c, `${name}-${amp}`, given, amp, both.plain, limit);
      ok &&= ours.ok;
      words.push(
        `${type} ${apart.toExponential(1)} (at most ${limit.toExponential(0)}), ${both.words}, ${ours.words}`,
      );
    }
    return { ok, figure: words.join("; "), detail };
  },
});

interface Feature {
  readonly flags: string;
  /** Its draws differ from the CPU's: captured is compared with plain. */
  readonly drawn?: boolean;
  /** It is not captured. */
  readonly plain?: boolean;
}

const MLP = "--model mlp", CONVNET = "--model simple-convnet";
const FEATURES: Readonly<Record<string, Feature>> = {
  "accumulation, clipped, with an average of the weights": {
    flags: `${MLP} --grad-accum 3 --train-samples 72 --ema 0.9 --clip-norm 0.1`,
  },
  "dropout": { flags: `${CONVNET} --dropout 0.3`, drawn: true },
  "dropout in attention": { flags: `${GPT} --dropout 0.1`, drawn: true },
  "gradient checkpointing": { flags: `${GPT} --gradient-checkpointing` },
  "short evaluation batches": { flags: `${CONVNET} --eval-batch-size 3` },
  "steps left out at spikes": {
    flags: `${MLP} --on-spike skip --set training.spike_window=10 --set training.spike_zscore=1.1`,
    plain: true,
  },
  "a profile": { flags: `${CONVNET} --profile-training`, plain: true },
  "loader threads": { flags: `${CONVNET} --num-workers 2` },
  "saves at steps": { flags: `${MLP} --save-interval 2steps` },
  "mixed and cropped images": { flags: `${CONVNET} --mixup 0.2 --crop-padding 2 --random-crop 28` },
  "momentum": { flags: `${MLP} --optimizer sgd --momentum 0.9 --nesterov` },
  "LAMB": { flags: `${MLP} --optimizer lamb --weight-decay 0.1`, plain: true },
  "the same bits on any layout": { flags: `${MLP} --deterministic=world`, plain: true },
  "channels last": { flags: `${CONVNET} --channels-last on` },
  "fp16 that overflows at first": {
    flags: `${MLP} --amp fp16 --set training.loss_scale_init=16777216 --train-samples 64`,
    drawn: true, // of other steps than the CPU's fp32
  },
  "a user's model": { flags: "--model ./net.ts" },
};

const NET = `export default ({ nn, ops, facts, outputs }) => {
  class Net extends nn.Module {
    first = this.child("first", new nn.Linear(facts.input.shape.reduce((a, b) => a * b, 1), 24));
    last = this.child("last", new nn.Linear(24, outputs));
    forward(x) { return this.last.forward(ops.relu(this.first.forward(ops.flatten(x, 1)))); }
  }
  return new Net();
};
`;

/** A user's model is in each run's folder. */
function placeNet(c: Context, name: string): void {
  for (const way of ["cpu", "plain", "plain-again", "plain-twice", "captured"]) {
    const folder = join(c.folder, `train-${name}-${way}`);
    Deno.mkdirSync(folder, { recursive: true });
    Deno.writeTextFileSync(join(folder, "net.ts"), NET);
  }
}

const featureCheck = (name: string, { flags, drawn, plain }: Feature): Check => ({
  name: `trained with ${name}`,
  gpuOnly: true,
  beside: true,
  async run(c) {
    const at = name.replaceAll(/[^a-z0-9]+/gi, "-");
    placeNet(c, at);
    const own = flags.includes("--amp") ? flags : `${flags} --amp off`;
    const both = plain
      ? await train(c, `${at}-plain`, `${own} ${WAYS.captured}`)
      : await bothWays(c, at, own);
    if ("ok" in both) return both;
    const [told, words] = "plain" in both ? [both.plain, both.words] : [both, "op by op"];
    if (plain && told.replayed) return { ok: false, figure: "its steps were captured" };
    if (!told.losses.every(Number.isFinite)) return { ok: false, figure: `losses ${told.losses}` };
    if (drawn) return { ok: true, figure: `${told.losses.length} losses, ${words}` };
    const here = await train(c, `${at}-cpu`, `${own} ${WAYS.cpu}`);
    if (isOutcome(here)) return here;
    const apart = relative(told.losses, here.losses);
    return {
      ok: apart <= APART.off,
      figure: `${apart.toExponential(1)} relative (at most ${APART.off.toExponential(0)}), ${words}`,
      detail: { there: told.losses, here: here.losses },
    };
  },
});

/** The second epoch goes on from the first one's checkpoint. */
const goingOn = (name: string, flags: string): Check => ({
  name: `a run that goes on is the unbroken run: ${name}`,
  gpuOnly: true,
  beside: true,
  async run(c) {
    const own = `${flags} --train-samples 20 --scheduler constant --deterministic --device cuda`;
    const unbroken = await train(c, `whole-${name}`, `${own} --epochs 2`);
    if (isOutcome(unbroken)) return unbroken;
    const first = await train(c, `parts-${name}`, `${own} --epochs 1`);
    if (isOutcome(first)) return first;
    const more = `${own} --epochs 2 --resume checkpoints/run_latest.pt`;
    const second = await train(c, `parts-${name}`, more, "second");
    if (isOutcome(second)) return second;
    const whole = [
      unbroken.steps.slice(first.steps.length),
      unbroken.evaluations.slice(first.evaluations.length),
    ]
      .flat();
    const same = `${second.losses}` === `${whole}` && whole.length > 3;
    return {
      ok: same,
      figure: `${whole.length} losses ${same ? "are" : "are not"} the same bits${
        flags.includes("--compile=fast") ? `, compiled: ${unbroken.compiled}, ${second.compiled}` : ""
      }`,
      detail: { whole, second },
    };
  },
});

/** A rehearsal is short. */
const tooLong = (name: string, quick: boolean) => quick && name.startsWith("resnet");

export const trainings = (quick: boolean): readonly Check[] => [
  ...Object.entries(MODELS).filter(([name]) => !tooLong(name, quick))
    .map(([name, flags]) => modelCheck(name, flags)),
  ...Object.entries(FEATURES).map(([name, feature]) => featureCheck(name, feature)),
  goingOn("mlp", `${MLP} --amp off`),
  goingOn("compiled, with dropout", `${CONVNET} --amp bf16 --dropout 0.3 --compile=fast`),
  goingOn("fp16 with an average and dropout", `${CONVNET} --amp fp16 ${SCALE} --ema 0.9 --dropout 0.3`),
];
