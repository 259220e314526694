// What is trained on the CUDA stand-in: each model in three precisions, and each feature that has a GPU's path.

export interface Case {
  readonly name: string;
  readonly flags: string;
  /** What the GPU alone takes beside them: fp16, for which the CPU's fp32 stands. */
  readonly gpu?: string;
  /** Not compared with the CPU, which draws other numbers. */
  readonly alone?: boolean;
  /** How far losses may be from the CPU's; left out, norms are compared too. */
  readonly apart?: number;
  /** The second of two epochs goes on from the first one's checkpoint. */
  readonly resumed?: boolean;
}

export const SHORT =
  "--epochs 2 --train-samples 48 --val-samples 24 --batch-size 16 --log-interval 1 --threads 1 --num-workers 1 " +
  "--lr 0.003 --amp off --no-tf32 --no-wandb --channels-last off --dropout 0";
/** Three steps run as they are before one is captured. */
const FEW = "--train-samples 12 --val-samples 4 --batch-size 4";
export const MLP = "--model mlp", CONVNET = "--model simple-convnet";
export const GPT = "--model gpt --layers 2 --embed 32 --heads 2 --context 32";
const PLAIN = "--optimizer sgd --momentum 0";
/** Their weights are many: one epoch, so that few are saved. */
const ONCE = "--train-samples 20 --val-samples 4 --batch-size 4 --epochs 1";
const RESNET = `--model resnet18 ${ONCE}`, RESNET50 = `--model resnet50 ${ONCE} --max-steps 2 ${PLAIN}`;
export const UNET = `--model unet --set model.width=8 ${FEW}`;
const COSMO = `--model cosmo-cnn --set model.width=4 ${FEW}`;
const VIT = `--model vit ${FEW}`, FNO = `--model fno ${FEW}`;
/** fp16 begins with a scale that lets no step be skipped. */
const BF16 = "--amp bf16", FP16 = "--amp fp16 --set training.loss_scale_init=1024";
/** Where rounding grows from step to step. */
const GENTLE = "--lr 1e-5";

/** Rows are read by the training thread, or by another. */
const THREAD = "--num-workers 1", HERE = "--num-workers 0";
const readHere = (one: Case): Case => ({ ...one, flags: `${HERE} ${one.flags}` });

const inHalf = (name: string, flags: string, apart: number): Case[] => [
  { name: `${name} in bf16`, flags: `${flags} ${BF16}`, apart },
  { name: `${name} in fp16`, flags, gpu: FP16, apart },
];

const ZOO: readonly Case[] = [
  { name: "mlp", flags: MLP },
  { name: "simple-convnet", flags: CONVNET },
  { name: "gpt", flags: GPT },
  { name: "resnet18", flags: `${RESNET} ${GENTLE} ${PLAIN}` },
  {
    name: "resnet18 with channels last",
    flags: `${RESNET} ${GENTLE} ${PLAIN} --channels-last on`,
    apart: 1e-4,
  },
  { name: "resnet50", flags: `${RESNET50} ${GENTLE}` },
  { name: "unet", flags: UNET },
  { name: "vit", flags: VIT },
  { name: "cosmo-cnn", flags: COSMO },
  { name: "fno", flags: FNO },
  ...inHalf("mlp", MLP, 1e-3),
  ...inHalf("simple-convnet", CONVNET, 2e-2),
  ...inHalf("gpt", GPT, 5e-3),
  ...inHalf("resnet18", `${RESNET} ${GENTLE} ${PLAIN}`, 5e-2),
  ...inHalf("unet", UNET, 5e-3),
  ...inHalf("vit", VIT, 3e-2),
  ...inHalf("cosmo-cnn", COSMO, 5e-3),
  ...inHalf("fno", FNO, 1e-3),
];

/** These take as long together as the others with the features, beside which they run. */
const LARGE = /^(mlp|simple-convnet|gpt|resnet)/;
const MODELS = ZOO.map(readHere);
export const [LARGE_MODELS, OTHER_MODELS] = [true, false].map((large) =>
  MODELS.filter(({ name }) => LARGE.test(name) === large)
);

/** Losses of two samples jump. */
export const SPIKES = "--batch-size 2 --set training.spike_window=10 --set training.spike_zscore=2";
const IMAGES = `${CONVNET} --batch-size 8 --train-samples 24 --val-samples 8`;
const TABLE = "--data-path rows.csv --set data.targets=c --validation-split 0.25 --batch-size 8";

const WITH_FEATURES: readonly Case[] = [
  { name: "accumulation", flags: `${MLP} --grad-accum 3 --train-samples 250` },
  {
    name: "accumulation in fp16",
    flags: `${MLP} --grad-accum 3 --train-samples 250`,
    gpu: FP16,
    apart: 1e-3,
  },
  { name: "an average of the weights", flags: `${MLP} --ema 0.9 --clip-norm 0.1` },
  { name: "dropout", flags: `${IMAGES} --dropout 0.3`, alone: true },
  { name: "dropout in attention", flags: `${GPT} --dropout 0.1`, alone: true },
  { name: "gradient checkpointing", flags: `${GPT} --gradient-checkpointing` },
  { name: "evaluation in short batches", flags: `${IMAGES} --eval-batch-size 7 ${THREAD}` },
  { name: "going on", flags: `${MLP} ${THREAD}`, resumed: true },
  {
    name: "going on in fp16 with an average",
    flags: `${MLP} --ema 0.9`,
    gpu: FP16,
    apart: 1e-3,
    resumed: true,
  },
  { name: "steps left out at spikes", flags: `${MLP} --on-spike skip ${SPIKES}` },
  { name: "going back at spikes", flags: `${MLP} --on-spike rewind ${SPIKES} ${THREAD}` },
  {
    name: "fp16 that overflows at first",
    flags: `${MLP} --amp fp16 --set training.loss_scale_init=16777216`,
    alone: true,
  },
  { name: "a profile", flags: `${IMAGES} --profile-training` },
  { name: "loader threads", flags: `${IMAGES} --num-workers 2` },
  {
    name: "a user's data, read by threads",
    flags: `${MLP} --data ./data.ts --num-workers 2 --train-samples 200`,
  },
  { name: "saves at steps", flags: `${MLP} --save-interval 2steps ${THREAD}` },
  { name: "mixed images", flags: `${IMAGES} --mixup 0.2 --cutmix 0.5` },
  { name: "cropped images", flags: `${IMAGES} --crop-padding 2 --random-crop 28 --flip horizontal` },
  { name: "momentum", flags: `${MLP} --optimizer sgd --momentum 0.9 --nesterov` },
  { name: "LAMB", flags: `${MLP} --optimizer lamb --weight-decay 0.1` },
  { name: "the same bits on any layout", flags: `${MLP} --deterministic=world` },
  { name: "deterministic kernels", flags: `${IMAGES} --deterministic` },
  { name: "a user's model", flags: "--model ./net.ts" },
  { name: "an exported model", flags: `--model ./exported.pt2 ${TABLE}` },
];
export const FEATURES = WITH_FEATURES.map(readHere);

/** Data of a user's own, which loader threads read into page-locked memory. */
export const DATA = `export default ({ tensor, settings }) => {
  const batch = (ids) => ({
    input: tensor(Float32Array.from([...ids].flatMap((id) => [Math.sin(id), Math.cos(3 * id), id % 5])), [ids.length, 3]),
    target: tensor(BigInt64Array.from([...ids].map((id) => BigInt(id % 3)))),
  });
  const samples = (length, first) => ({ length, batch: (ids) => batch([...ids].map((id) => first + id)) });
  const { train_samples: train, val_samples: val } = settings;
  return { task: "classification", outputs: 3, train: samples(train, 0), val: samples(val, train) };
};
`;
