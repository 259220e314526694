// The jobs of `scripts/bench jobs`, and the command lines that do them: as a user types hpctrain's, and beside it a script's.

export interface Job {
  readonly title: string;
  /** The file or folder that bench/peers/jobs_data.py writes. */
  readonly data: string;
  /** hpctrain is told this beside the data and what both sides are told. */
  readonly flags: string;
  readonly epochs: number;
  readonly batch: number;
  /** Files that the command line names beside the data. */
  readonly more?: readonly string[];
}

/** bench/peers/jobs.py has the same names. Sizes are such that a job takes some seconds on two quiet cores. */
export const JOBS: Readonly<Record<string, Job>> = {
  "small-table": {
    title: "a table of 1,000 rows, MLP 20-128-128-1, 300 epochs",
    data: "small.csv",
    flags: "--hidden-size 128",
    epochs: 300,
    batch: 32,
  },
  "large-table": {
    title: "a table of 100,000 rows, MLP 20-128-128-1, 5 epochs",
    data: "large.csv",
    flags: "--hidden-size 128",
    epochs: 5,
    batch: 128,
  },
  digits: {
    title: "6,400 images of 28 x 28, simple-convnet, 2 epochs",
    data: "digits",
    flags: "--model simple-convnet --data-type mnist",
    epochs: 2,
    batch: 64,
  },
  photos: {
    title: "1,000 JPEGs, ResNet-18 on 32 x 32, 3 epochs",
    data: "photos",
    flags: "--model resnet18 --resize 36 --centre-crop 32 --flip horizontal --normalise imagenet",
    epochs: 3,
    batch: 32,
  },
  maps: {
    title: "640 maps of 64 x 64, U-Net, 2 epochs",
    data: "maps.nc",
    flags: "--model unet --width 16 --depth 3 --features wind,sst --targets ice",
    epochs: 2,
    batch: 16,
  },
  gpt: {
    title: "a text of 120,000 bytes, GPT 4 x 128, 2 epochs",
    data: "story.txt",
    flags: "--model gpt --layers 4 --embed 128 --heads 4 --context 64",
    epochs: 2,
    batch: 12,
  },
  pinn: {
    title: "a PINN in TypeScript, second derivatives, 20 epochs",
    data: "points.npz",
    flags: "--model heat.ts --targets known",
    epochs: 20,
    batch: 128,
    more: ["heat.ts"],
  },
  ode: {
    title: "a neural ODE of a .pt2, 8 steps, 30 epochs",
    data: "flow.npz",
    flags: "--model ode.pt2 --targets after",
    epochs: 30,
    batch: 64,
    more: ["ode.pt2"],
  },
  "fine-tune": {
    title: "fine-tuning a ResNet-18 of a .pt2, 4 epochs",
    data: "pets.npz",
    flags: "--model fine-tune.pt2 --targets kind",
    epochs: 4,
    batch: 32,
    more: ["fine-tune.pt2"],
  },
};

/** A user may type the first two, or run the others; they stand in this order on the page. */
export const OWN = { hpctrain: "", "hpctrain --compile": "--compile" } as const;
export const PEERS = { PyTorch: "jobs.py", Lightning: "jobs_lightning.py" } as const;
export type Side = keyof typeof OWN | keyof typeof PEERS;
export const SIDES = [...Object.keys(OWN), ...Object.keys(PEERS)] as Side[];

export const isOwn = (side: Side): side is keyof typeof OWN => Object.hasOwn(OWN, side);

/** The words behind the program: `hpctrain`, or `python3`. `epochs` in place of the job's, to see that it runs. */
export function wordsOf(name: string, side: Side, threads: number, epochs = JOBS[name].epochs): string[] {
  const { data, flags, batch } = JOBS[name];
  const both = `--epochs ${epochs} --batch-size ${batch} --clip-norm 1 --threads ${threads}`;
  const line = isOwn(side)
    ? `train --data-path ${data} ${flags} ${both} ${OWN[side]}`
    : `${PEERS[side]} ${name} ${data} ${both}`;
  return line.trim().split(/ +/);
}

export const commandOf = (name: string, side: Side, threads: number, epochs?: number): string =>
  [isOwn(side) ? "hpctrain" : "python3", ...wordsOf(name, side, threads, epochs)].join(" ");
