// The samples that a model is described for where no data is given: the settings' sizes, or those it is known for.
// May import core/config (types), core/errors,
// core/user/export, model (types).
import type { Config } from "../../config/settings.ts";
import { UserError } from "../../errors.ts";
import { isCode } from "../../user/export.ts";
import type { Facts } from "../model.ts";

type Settings = Config["model"];
type Task = Facts["task"];

interface Known {
  /** In a few words, for the list. */
  readonly about: string;
  readonly task: Task;
  readonly shape: readonly number[];
  readonly outputs: number;
}

/** What each is best known with: digits, ImageNet, GPT-2's tokens. */
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
      about: "residual network, as torchvision has it",
      task: "classification",
      shape: [3, 224, 224],
      outputs: 1000,
    }]),
  ),
  unet: { about: "an answer per pixel", task: "segmentation", shape: [3, 128, 128], outputs: 2 },
  gpt: { about: "GPT-2, with nanoGPT's names", task: "language", shape: [1024], outputs: 50257 },
  vit: { about: "vision transformer", task: "classification", shape: [3, 224, 224], outputs: 1000 },
};

export const aboutModel = (name: string): string => KNOWN[name]?.about ?? "";

/** The sizes that the settings give come first. */
export function factsFor(settings: Settings): Facts {
  const known = KNOWN[settings.name] ?? unknown(settings);
  const { task } = known;
  const outputs = (task === "language" ? settings.vocab_size : settings.output_size) || known.outputs;
  return {
    task,
    outputs,
    input: { shape: shapeFor(settings, known), dtype: task === "language" ? "i64" : "f32" },
  };
}

function shapeFor(settings: Settings, { task, shape }: Known): readonly number[] {
  if (task === "language") return [settings.context || shape[0]];
  if (shape.length === 1) return [settings.input_size || shape[0]];
  const [channels, height, width] = shape;
  const { image_size: side } = settings;
  return [settings.channels || channels, side || height, side || width];
}

/** A file's author knows what it takes; the settings may say it. */
function unknown({ name, input_size: inputs, channels, image_size: side }: Settings): Known {
  if (!isCode(name)) return KNOWN.mlp; // a name that nothing has: the registry says which there are
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
