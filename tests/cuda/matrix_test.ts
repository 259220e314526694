// Training on the CUDA stand-in gives the CPU's losses, with work done at once and as late as possible, and does nothing
// that a GPU would punish.
import { assert, assertEquals } from "@std/assert";
import { join } from "@std/path";
import { eventsOf, inTemp } from "../integration/program.ts";
import { trainedInPython } from "../core/models/exported/training.ts";
import { type Ended, type Run, runAll, total, violations } from "./runs.ts";
import { onStandin } from "./standin.ts";

interface Case {
  readonly name: string;
  readonly flags: string;
  /** What the CPU takes beside them. */
  readonly cpu?: string;
  /** How far losses may be from the CPU's; 0: the same bits. */
  readonly apart?: number;
  /** The second of two epochs goes on from the first one's checkpoint. */
  readonly resumed?: boolean;
}

const SHORT = "--epochs 2 --train-samples 48 --val-samples 24 --batch-size 16 --log-interval 1 --threads 1 " +
  "--num-workers 1 --lr 0.003 --amp off --no-tf32 --no-wandb --channels-last off";
const FEW = "--train-samples 8 --val-samples 4 --batch-size 4";
const MLP = "--model mlp",
  CONVNET = "--model simple-convnet",
  GPT = "--model gpt",
  FNO = `--model fno ${FEW}`;
const RESNET = `--model resnet18 ${FEW} --epochs 1`,
  RESNET50 = `--model resnet50 ${FEW} --batch-size 2 --epochs 1`;
const UNET = `--model unet --set model.width=8 ${FEW}`,
  COSMO = `--model cosmo-cnn --set model.width=4 ${FEW}`;
const VIT = `--model vit ${FEW}`;
/** The CPU's fp32 stands for fp16, which begins with a scale that lets no step be skipped. */
const BF16 = "--amp bf16", FP16 = "--amp fp16 --set training.loss_scale_init=1024", FP32 = "--amp off";
/** Where rounding grows from step to step. */
const GENTLE = "--lr 1e-5";

const inHalf = (name: string, flags: string, apart: number): Case[] => [
  { name: `${name} in bf16`, flags: `${flags} ${BF16}`, apart },
  { name: `${name} in fp16`, flags: `${flags} ${FP16}`, cpu: FP32, apart },
];

const MODELS: readonly Case[] = [
  { name: "mlp", flags: MLP },
  { name: "simple-convnet, with dropout", flags: CONVNET },
  { name: "gpt", flags: GPT },
  { name: "resnet18", flags: RESNET },
  { name: "resnet18 with channels last", flags: `${RESNET} --channels-last on ${GENTLE}`, apart: 1e-4 },
  { name: "resnet50", flags: RESNET50 },
  { name: "unet", flags: UNET },
  { name: "vit", flags: VIT },
  { name: "cosmo-cnn", flags: COSMO },
  { name: "fno", flags: FNO },
  ...inHalf("mlp", MLP, 1e-3),
  ...inHalf("simple-convnet", CONVNET, 2e-2),
  ...inHalf("gpt", GPT, 5e-3),
  ...inHalf("resnet18", `${RESNET} ${GENTLE}`, 5e-2),
  ...inHalf("unet", UNET, 5e-3),
  ...inHalf("vit", VIT, 3e-2),
  ...inHalf("cosmo-cnn", COSMO, 5e-3),
  ...inHalf("fno", FNO, 1e-3),
];

const FEATURES: readonly Case[] = [
  { name: "accumulation", flags: `${MLP} --grad-accum 3` },
  { name: "accumulation in fp16", flags: `${MLP} --grad-accum 3 ${FP16}`, cpu: FP32, apart: 1e-3 },
  { name: "an average of the weights", flags: `${MLP} --ema 0.9 --clip-norm 0.1` },
  { name: "gradient checkpointing", flags: `${GPT} --gradient-checkpointing --dropout 0.1` },
  { name: "evaluation in short batches", flags: `${CONVNET} --eval-batch-size 7` },
  { name: "going on", flags: MLP, resumed: true },
  {
    name: "going on in fp16 with an average",
    flags: `${MLP} ${FP16} --ema 0.9`,
    cpu: FP32,
    apart: 1e-3,
    resumed: true,
  },
  {
    name: "steps left out at spikes",
    flags: `${MLP} --on-spike skip --set training.spike_window=4 --set training.spike_zscore=1.1 --epochs 4`,
  },
  { name: "a profile", flags: `${CONVNET} --profile-training` },
  { name: "loader threads", flags: `${CONVNET} --num-workers 2` },
  { name: "saves at steps", flags: `${MLP} --set output.save_interval_steps=2` },
  { name: "mixed images", flags: `${CONVNET} --mixup 0.2 --cutmix 0.5` },
  { name: "cropped images", flags: `${CONVNET} --crop-padding 2 --random-crop 28 --flip horizontal` },
  { name: "momentum", flags: `${MLP} --optimizer sgd --momentum 0.9 --nesterov` },
  { name: "LAMB", flags: `${MLP} --optimizer lamb --weight-decay 0.1` },
  { name: "the same bits on any layout", flags: `${MLP} --deterministic=world` },
  { name: "deterministic kernels", flags: `${CONVNET} --deterministic` },
  { name: "a user's model", flags: "--model ./net.ts" },
  {
    name: "an exported model",
    flags:
      "--model ./exported.pt2 --data-path rows.csv --set data.targets=c --validation-split 0.25 --batch-size 8",
  },
];

const NET = `export default ({ nn, ops, facts, outputs }) => {
  class Net extends nn.Module {
    first = this.child("first", new nn.Linear(facts.input.shape.reduce((a, b) => a * b, 1), 24));
    last = this.child("last", new nn.Linear(24, outputs));
    forward(x) { return this.last.forward(ops.relu(this.first.forward(ops.flatten(x, 1)))); }
  }
  return new Net();
};
`;
const ROWS = [
  "a,b,c",
  ...Array.from({ length: 48 }, (_, i) => `${Math.sin(i)},${Math.cos(3 * i)},${Math.sin(2 * i)}`),
];

async function prepare(cwd: string): Promise<void> {
  Deno.writeTextFileSync(join(cwd, "net.ts"), NET);
  Deno.writeTextFileSync(join(cwd, "rows.csv"), ROWS.join("\n") + "\n");
  const [{ path }] = await trainedInPython(["physics"], cwd);
  Deno.renameSync(path, join(cwd, "exported.pt2"));
}

const WAYS = ["at once", "late", "cpu"] as const; // libtorch knows no GPU if the CPU is used first

/** A case takes one run a way, or two. */
function runsOf({ flags, cpu = "", resumed }: Case, k: number): Run[] {
  return WAYS.flatMap((way) => {
    const name = `case${k}-${way.replace(" ", "-")}`;
    const words = `${SHORT} ${flags} ${
      way === "cpu" ? `${cpu} --device cpu` : "--device cuda"
    } --run-name ${name}`.split(" ");
    const late = way === "late";
    const args = words.filter((word) => word !== "");
    if (!resumed) return [{ args, late }];
    return [
      { args: [...args, "--epochs", "1"], late },
      { args: [...args, "--resume", `checkpoints/${name}_latest.pt`], late },
    ];
  });
}

/** Losses and norms of steps, and what each epoch was judged by. */
function numbers(cwd: string, k: number, way: string): number[] {
  return eventsOf(cwd, `case${k}-${way.replace(" ", "-")}`).filter(({ kind }) =>
    ["step", "eval", "epoch"].includes(kind)
  )
    .flatMap(({ kind, loss, val_loss, grad_norm }) => kind === "step" ? [loss, grad_norm] : [loss, val_loss])
    .filter((value): value is number => typeof value === "number");
}

/** Null where a case's runs agree. */
function fault(cwd: string, { name, apart = 0 }: Case, k: number, ends: readonly Ended[]): string | null {
  const wrong = ends.flatMap((end) => [
    ...(end.code === 0 ? [] : [`code ${end.code}: ${end.error}`]),
    ...violations(end),
  ]);
  if (wrong.length > 0) return `${name}: ${wrong.join("\n")}`;
  if (total(ends[0], "operator:") < 50) return `${name}: it did not compute on the stand-in`;
  const here = numbers(cwd, k, "cpu");
  for (const way of ["at once", "late"]) {
    const there = numbers(cwd, k, way);
    if (here.length < 4 || here.length !== there.length) {
      return `${name}: ${there.length} numbers of ${here.length} ${way}`;
    }
    const most = Math.max(
      ...here.map((value, i) => Math.abs(value - there[i]) / Math.max(1, Math.abs(value))),
    );
    if (!(most <= apart)) return `${name}: ${way} it is ${most} from the CPU: ${there} / ${here}`;
  }
  return null;
}

/** In one process. */
async function faultsOf(cwd: string, cases: readonly Case[], first: number): Promise<string[]> {
  const runs = cases.map((one, i) => runsOf(one, first + i));
  const ends = await runAll(cwd, runs.flat());
  let at = 0;
  return cases.flatMap((one, i) => {
    const own = ends.slice(at, at += runs[i].length);
    return fault(cwd, one, first + i, own) ?? [];
  });
}

onStandin(
  "on the CUDA stand-in an mlp trains to the CPU's losses, at once and late",
  () => inTemp(async (cwd) => assertEquals(await faultsOf(cwd, [MODELS[0]], 0), [])),
);

onStandin(
  "each model and feature trains on the CUDA stand-in to the CPU's losses, with nothing that a GPU would punish",
  () =>
    inTemp(async (cwd) => {
      await prepare(cwd);
      const halves = await Promise.all([faultsOf(cwd, MODELS, 0), faultsOf(cwd, FEATURES, 100)]);
      assertEquals(halves.flat(), []);
    }),
);

onStandin("TF32 rounds products on the CUDA stand-in", () =>
  inTemp(async (cwd) => {
    const args = `${SHORT} ${MLP} --device cuda --epochs 1`.split(" ");
    await runAll(cwd, [
      { args: [...args, "--tf32", "--run-name", "case0-at-once"] },
      { args: [...args, "--run-name", "case0-cpu"] },
    ]);
    const rounded = numbers(cwd, 0, "at once"), exact = numbers(cwd, 0, "cpu");
    const apart = Math.abs(rounded[0] - exact[0]);
    assert(apart > 0 && apart < 1e-3, `${rounded[0]} and ${exact[0]}`);
  }));
