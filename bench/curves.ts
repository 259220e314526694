// `scripts/bench curves`: ResNet-18 by the recipe of torchvision's references here, and as a script in torchvision's own parts
// trains it, over three seeds each; and the curves of other recipes at a small size. The page prints the command lines.
import { join } from "paths";
import { writePage } from "./page.ts";
import { machine, table, versionsOf, writeResults } from "./report.ts";
import type { Programs } from "./step.ts";
import { eventsIn, timed } from "./timed.ts";

const peer = new URL("peers/curves.py", import.meta.url).pathname;
const THREADS = 1, SEEDS = [1, 2, 3], EPOCHS = 12, STEP = 8, BATCH = 32, RATE = 0.02, CROP = 32;
const COMMON = "--device cpu --threads 1 --no-wandb";
const IMAGES =
  `--data-path photos --resize 36 --centre-crop ${CROP} --global-batch-size ${BATCH} --batch-size ${BATCH}`;

const lineOf = (seed: number | string, epochs: number): string =>
  `hpctrain --recipe torchvision-resnet50-v1 --model resnet18 ${IMAGES} --augment 'random_resized_crop(${CROP}), horizontal_flip' ` +
  `--lr ${RATE} --set training.scheduler.step_size=${STEP} --epochs ${epochs} --seed ${seed} ${COMMON}`;

/** Recipes that train from the same folder, as small as shows a curve in a minute. */
const SMALL: Readonly<Record<string, string>> = {
  "torchvision-resnet50-v2":
    "--model resnet18 --epochs 4 --lr 0.05 --scheduler cosine --warmup 1ep --ema 0.9 --augment " +
    "'repeated_augmentation(2), random_resized_crop(32), horizontal_flip, trivial_augment, random_erasing(0.1), mixup(0.2), cutmix(1)'",
  "timm-a3": "--model resnet18 --epochs 6 --warmup 1ep --augment " +
    "'random_resized_crop(32, interpolation=bicubic), horizontal_flip, rand_augment(2, 9), mixup(0.1), cutmix(1)'",
  "deit-s":
    "--layers 4 --heads 3 --embed 96 --set model.patch_size=4 --epochs 6 --warmup 1ep --ema 0.9 --augment " +
    "'random_resized_crop(32, interpolation=bicubic), horizontal_flip, rand_augment(2, 9), random_erasing(0.25), mixup(0.8), cutmix(1)'",
};

interface Curve {
  readonly command: string;
  readonly accuracy: readonly number[];
  readonly loss: readonly number[];
}

type Sides = Readonly<Record<"hpctrain" | "torchvision", readonly Curve[]>>;

/** `quick`: to see that it runs; nothing is written. */
export async function curvesBenchmark(
  p: Pick<Programs, "exe" | "python" | "libtorch" | "data">,
  quick = false,
): Promise<void> {
  const folder = join(p.data, "curves");
  if (!exists(join(folder, "photos"))) await makePhotos(p.python, folder);
  const about = { ...machine(), ...versionsOf(p) }, epochs = quick ? 1 : EPOCHS;
  const sides = { hpctrain: [] as Curve[], torchvision: [] as Curve[] };
  for (const seed of quick ? SEEDS.slice(0, 1) : SEEDS) {
    sides.hpctrain.push(await ours(p, folder, lineOf(seed, epochs)));
    sides.torchvision.push(await theirs(p, folder, seed, epochs));
  }
  const recipes: Record<string, Curve> = {};
  for (const [recipe, words] of Object.entries(SMALL)) {
    const line = `hpctrain --recipe ${recipe} ${IMAGES} ${words} --seed 1 ${COMMON}`;
    recipes[recipe] = await ours(p, folder, quick ? `${line} --epochs 1` : line);
  }
  const date = new Date().toISOString().slice(0, 10);
  if (quick) return console.log(page(date, about, sides, recipes));
  writeResults("curves", { date, machine: about, sides, recipes });
  writePage("curves", page(date, about, sides, recipes));
}

const exists = (path: string): boolean => {
  try {
    return Deno.statSync(path).isDirectory;
  } catch {
    return false;
  }
};

/** Renamed into place when it is whole. */
async function makePhotos(python: string, folder: string): Promise<void> {
  Deno.mkdirSync(folder, { recursive: true });
  const part = join(folder, `photos.${Deno.pid}`);
  await timed(python, [python, peer, "data", part], folder);
  Deno.renameSync(part, join(folder, "photos"));
}

async function ours(
  { exe, python }: Pick<Programs, "exe" | "python">,
  data: string,
  command: string,
): Promise<Curve> {
  const folder = Deno.makeTempDirSync();
  try {
    Deno.symlinkSync(join(data, "photos"), join(folder, "photos"));
    await timed(python, ["sh", "-c", command.replace(/^hpctrain/, '"$0"'), exe], folder);
    const epochs = eventsIn(folder).filter(({ kind }) => kind === "epoch");
    return {
      command,
      accuracy: epochs.map(({ val_metrics }) => val_metrics.accuracy),
      loss: epochs.map(({ loss }) => loss),
    };
  } finally {
    Deno.removeSync(folder, { recursive: true });
  }
}

async function theirs(
  { python }: Pick<Programs, "python">,
  data: string,
  seed: number,
  epochs: number,
): Promise<Curve> {
  const words = ["train", "photos", seed, epochs, STEP, BATCH, RATE, THREADS, CROP].map(String);
  const { said } = await timed(python, [python, peer, ...words], data);
  const lines: { loss: number; accuracy: number }[] = said.trim().split("\n").map((line) => JSON.parse(line));
  return {
    command: `python bench/peers/curves.py ${words.join(" ")}`,
    accuracy: lines.map(({ accuracy }) => accuracy),
    loss: lines.map(({ loss }) => loss),
  };
}

const mean = (values: readonly number[]) => values.reduce((a, b) => a + b, 0) / values.length;
const spread = (values: readonly number[]) =>
  Math.sqrt(
    mean(values.map((value) => (value - mean(values)) ** 2)) * values.length / Math.max(1, values.length - 1),
  );

/** Each epoch has the mean of the seeds and their standard deviation. */
const bands = (curves: readonly Curve[], what: "accuracy" | "loss") =>
  curves[0][what].map((_, epoch) => {
    const values = curves.map((curve) => curve[what][epoch]);
    return { mean: mean(values), spread: spread(values) };
  });

function page(
  date: string,
  about: ReturnType<typeof machine> & ReturnType<typeof versionsOf>,
  sides: Sides,
  recipes: Readonly<Record<string, Curve>>,
): string {
  const say = ({ mean, spread }: { mean: number; spread: number }) =>
    `${mean.toFixed(3)} ± ${spread.toFixed(3)}`;
  const [a, b, c, d] = (["accuracy", "loss"] as const).flatMap((
    what,
  ) => [bands(sides.hpctrain, what), bands(sides.torchvision, what)]);
  const rows = a.map((_, i) => [`${i + 1}`, say(a[i]), say(b[i]), say(c[i]), say(d[i])]);
  const small = Object.entries(recipes).map(([recipe, { accuracy, loss, command }]) =>
    `**${recipe}**: training loss ${loss.map((value) => value.toFixed(3)).join(", ")}; accuracy ${
      accuracy.map((value) => value.toFixed(3)).join(", ")
    }.\n\n    ${command}\n`
  );
  return [
    "# Curves of recipes\n",
    `\`./scripts/bench curves\` on ${date}: ${about.cpu}, ${about.cores} cores; Python ${about.python}, torch ${about.torch}; ` +
    `libtorch ${about.libtorch}. 480 made-up photographs of eight shapes to train with, 240 to judge by.\n`,
    `ResNet-18 by torchvision's recipe: means of ${sides.hpctrain.length} seeds, and their standard deviation.\n`,
    table(["epoch", "accuracy here", "torchvision's", "training loss here", "torchvision's"], rows),
    `\nHere: \`${sides.hpctrain[0].command}\`, and so on. There: \`${sides.torchvision[0].command}\`.\n`,
    "## Other recipes at a small size\n",
    ...small,
  ].join("\n");
}
