// Simulations and the quickstart's fields are read from their folder or made on demand.
import { borrowBytes, uninitialised } from "../../../ffi/make.ts";
import { defaultConfig } from "../../settings/settings.ts";
import { isSimulated, simulation, type SimulationSpec, usual } from "./options.ts";
import type { Role, Simulation } from "./simulation.ts";
import { type Source, source } from "../source/source.ts";
import { checkCount, fields } from "../synthetic/fields.ts";
import { UserError } from "../../base/errors.ts";
import type { DataRequest, Sources } from "../format.ts";
import { readIndex } from "../formats/packed/index.ts";
import { openPacked } from "../formats/packed/packed.ts";

export interface Made {
  readonly kind: "2lpt" | "des" | "fields";
  readonly train: Source;
  readonly val: Source | null;
  readonly description: string;
  readonly facts: Readonly<Record<string, unknown>>;
  readonly targets: readonly string[];
  readonly spec?: SimulationSpec;
}

export function universes(spec: SimulationSpec, train: number, val: number): Made {
  const made = simulation(spec);
  checkCounts(train, val);
  return {
    ...made,
    train: streamed(made, "train", train),
    val: val > 0 ? streamed(made, "val", val) : null,
    spec,
  };
}

/** Making samples on demand needs no disk, but costs time in every epoch. */
function streamed(
  { kind, shape, targets, description, make }: Simulation,
  role: Role,
  samples: number,
): Source {
  const size = shape[0] * shape[1] * shape[2], count = targets.length;
  return source({
    name: kind,
    length: samples,
    task: "regression",
    outputs: count,
    names: targets,
    fields: ["maps", "parameters"],
    description: `${kind}: maps of [${shape.join(", ")}] -> ${targets.join(", ")}, from ${description}`,
    raw(ids) {
      const input = uninitialised([ids.length, ...shape]), target = uninitialised([ids.length, count]);
      const maps = floats(borrowBytes(input)), values = floats(borrowBytes(target));
      ids.forEach((id, row) =>
        make(
          role,
          id,
          maps.subarray(row * size, (row + 1) * size),
          values.subarray(row * count, (row + 1) * count),
        )
      );
      return { input, target };
    },
  });
}

const floats = ({ buffer, byteOffset, byteLength }: Uint8Array) =>
  new Float32Array(buffer, byteOffset, byteLength / 4);

export function gaussianFields(
  train: number,
  val: number,
  seed: number,
  size: number,
  channels: number,
): Made {
  checkCounts(train, val);
  const model = { ...defaultConfig().model, image_size: size, channels };
  const make = (role: Role, samples: number) => fields({ role, samples, seed, loss: "auto", model });
  return {
    kind: "fields",
    train: make("train", train),
    val: val > 0 ? make("val", val) : null,
    description: `Gaussian random fields of ${channels} x ${size} x ${size}, seed ${seed}`,
    facts: { recipe: 1, seed, size, channels },
    targets: ["amplitude", "tilt"],
  };
}

function checkCounts(train: number, val: number): void {
  checkCount({ role: "train", samples: train });
  checkCount({ role: "val", samples: val });
}

export function bytesOf({ train, val }: Made): number {
  const { input, target } = train;
  const numbers = [input, target].reduce((sum, { shape }) => sum + shape.reduce((a, b) => a * b, 1), 0);
  return (train.length + (val?.length ?? 0)) * 4 * numbers;
}

export function generated(request: DataRequest): Sources {
  if (request.data.data_path !== "") return fromFolder(request);
  const { train, val } = madeFor(request)!;
  return { train, val, notes: ["Each sample is made again whenever it is wanted"] };
}

/** The sizes are the model's where it has some. Null means another kind. */
export function madeFor({ data, training: { seed }, model }: DataRequest): Made | null {
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

function fromFolder(request: DataRequest): Sources {
  const { data_path: folder, type } = request.data;
  const { origin } = readIndex(folder);
  if (origin.kind !== type) {
    throw new UserError(
      "data",
      `${folder} was packed from ${origin.said} (${origin.kind}), and --data-type is ${type}: name a folder that ` +
        "`hpctrain generate-data` wrote, or train on this one with --data-type packed.",
    );
  }
  return openPacked(request);
}
