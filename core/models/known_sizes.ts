// The samples for which a model without data is described, and a few words about each model.
import type { Config } from "../settings/settings.ts";
import { UserError } from "../base/errors.ts";
import type { Facts } from "./model.ts";
import { isCode } from "./user/file.ts";

type SizeSettings = Config["model"];
type Task = Facts["task"];

interface Known {
  /** The list shows these few words. */
  readonly about: string;
  readonly task: Task;
  readonly shape: readonly number[];
  readonly outputs: number;
  readonly history?: number;
}

/** Each is best known with this data: digits, ImageNet, GPT-2's tokens. */
const KNOWN: Readonly<Record<string, Known>> = {
  mlp: { about: "hidden layers of one width, for tables", task: "regression", shape: [7], outputs: 1 },
  "simple-convnet": {
    about: "two convolutions, for digits",
    task: "classification",
    shape: [1, 28, 28],
    outputs: 10,
  },
  "cosmo-cnn": {
    about: "four stages of convolutions, for maps",
    task: "regression",
    shape: [1, 64, 64],
    outputs: 2,
  },
  ...Object.fromEntries(
    ["resnet18", "resnet34", "resnet50", "resnet101"].map((name): [string, Known] => [name, {
      about: "torchvision's residual network",
      task: "classification",
      shape: [3, 224, 224],
      outputs: 1000,
    }]),
  ),
  ...Object.fromEntries(
    ["convnext_tiny", "convnext_small", "convnext_base"].map((name): [string, Known] => [name, {
      about: "torchvision's ConvNeXt",
      task: "classification",
      shape: [3, 224, 224],
      outputs: 1000,
    }]),
  ),
  unet: { about: "an answer per pixel", task: "segmentation", shape: [3, 128, 128], outputs: 2 },
  convlstm: {
    about: "convolutional LSTM over a history of maps",
    task: "regression",
    shape: [12, 64, 64],
    outputs: 1,
    history: 12,
  },
  fno: {
    about: "Fourier neural operator, for periodic maps",
    task: "segmentation",
    shape: [3, 128, 128],
    outputs: 2,
  },
  gpt: { about: "GPT-2, with nanoGPT's names", task: "language", shape: [1024], outputs: 50257 },
  vit: { about: "vision transformer", task: "classification", shape: [3, 224, 224], outputs: 1000 },
};

export const aboutModel = (name: string): string => KNOWN[name]?.about ?? "";

/** The sizes that the settings give come first. */
export function factsFor(settings: SizeSettings): Facts {
  const known = KNOWN[settings.name] ?? unknown(settings);
  const { task, history } = known;
  const outputs = (task === "language" ? settings.vocab_size : settings.output_size) || known.outputs;
  return {
    task,
    outputs,
    input: {
      ...{ shape: shapeFor(settings, known), dtype: task === "language" ? "i64" : "f32" },
      ...(history && { history }),
    },
  };
}

function shapeFor(settings: SizeSettings, { task, shape }: Known): readonly number[] {
  if (task === "language") return [settings.context || shape[0]];
  if (shape.length === 1) return [settings.input_size || shape[0]];
  const [channels, height, width] = shape;
  const { image_size: side } = settings;
  return [settings.channels || channels, side || height, side || width];
}

/** A file's author knows what it takes; the settings may give it. */
function unknown({ name, input_size: inputs, channels, image_size: side }: SizeSettings): Known {
  if (!isCode(name)) return KNOWN.mlp; // The registry refuses an unknown name and lists the known ones.
  if (inputs > 0) return { about: "", task: "regression", shape: [inputs], outputs: 1 };
  if (channels > 0 && side > 0) {
    return { about: "", task: "classification", shape: [channels, side, side], outputs: 10 };
  }
  throw new UserError(
    "usage",
    `${name}: say what a sample is, with its data (--data-type, --data-path), with --input-size N, ` +
      "or with --set model.channels=3 --set model.image_size=224.",
  );
}
