// Made universes for training: from the folder they were generated into, or made anew whenever they are wanted.
// May import config, errors, packed, its siblings, ffi.
import { tensor, toDevice } from "../../../ffi/make.ts";
import { indexSelect } from "../../../ffi/ops.ts";
import { scope } from "../../../ffi/tensor.ts";
import type { Config } from "../../config/settings.ts";
import { didYouMean } from "../../config/suggest.ts";
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
  const { data_path: folder, type, targets } = data;
  const { origin, schema: { names = [] } } = readIndex(folder);
  if (origin.kind !== type) {
    throw new UserError(
      "data",
      `${folder} was packed from ${origin.said} (${origin.kind}), and --data-type is ${type}: name a folder that ` +
        "`hpctrain generate-data` wrote, or train on this one with --data-type packed.",
    );
  }
  const { train, val, notes } = packed({ data, seed });
  if (targets.length === 0 || targets.join() === names.join()) return { train, val, notes };
  const columns = targets.map((name) => columnOf(folder, name, names));
  return { train: withColumns(train, columns), val: val && withColumns(val, columns), notes };
}

function columnOf(folder: string, name: string, names: readonly string[]): number {
  const column = names.indexOf(name);
  if (column >= 0) return column;
  throw new UserError(
    "usage",
    `${folder} has no target "${name}".${didYouMean(name, names)} It has ${names.join(", ")}.`,
  );
}

/** The same source with some of its target's numbers. */
function withColumns(source: Source, columns: readonly number[]): Source {
  const { target, facts } = source;
  return {
    ...source,
    target: { ...target, shape: [columns.length] },
    facts: { ...facts, outputs: columns.length },
    finish: (raw, part) =>
      scope(() => {
        const { input, target } = source.finish(raw, part);
        const index = toDevice(tensor(Int32Array.from(columns)), target.device);
        return { input, target: indexSelect(target, 1, index) };
      }),
  };
}
