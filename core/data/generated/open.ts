// Made universes for training: from the folder they were generated into, or made anew whenever they are wanted.
// May import config, errors, packed, its siblings.
import type { Config } from "../../config/settings.ts";
import { isSimulated, type SimulationSpec, usual } from "../../cosmology/options.ts";
import { UserError } from "../../errors.ts";
import { readIndex } from "../packed/index_file.ts";
import { packed } from "../packed/packed.ts";
import type { Source } from "../source.ts";
import { type Made, universes } from "./made.ts";

export interface Settings {
  readonly data: Config["data"];
  readonly seed: number;
  readonly model: Config["model"];
}

interface Sets {
  readonly train: Source;
  readonly val: Source | null;
  readonly notes: readonly string[];
}

export function generated(settings: Settings): Sets {
  if (settings.data.data_path !== "") return fromFolder(settings);
  const { train, val } = madeFor(settings)!;
  return { train, val, notes: ["Each sample is made anew whenever it is wanted"] };
}

/** What training without a path makes: the sizes are the model's where it has some. Null for data of other kinds. */
export function madeFor({ data, seed, model }: Settings): Made | null {
  const kind = data.type;
  if (!isSimulated(kind)) return null;
  const { image_size: grid, channels } = model;
  const values = {
    ...usual(kind),
    targets: data.targets,
    ...(grid > 0 ? { grid } : {}),
    ...(channels > 0 ? { [kind === "2lpt" ? "maps" : "bins"]: channels } : {}),
  };
  return universes({ kind, seed, values } as SimulationSpec, data.train_samples, data.val_samples);
}

function fromFolder({ data, seed }: Settings): Sets {
  const { data_path: folder, type } = data;
  const { origin } = readIndex(folder);
  if (origin.kind !== type) {
    throw new UserError(
      "data",
      `${folder} was packed from ${origin.said} (${origin.kind}), and --data-type is ${type}: name a folder that ` +
        "`hpctrain generate-data` wrote, or train on this one with --data-type packed.",
    );
  }
  return packed({ data, seed });
}
