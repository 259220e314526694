// Simulated samples are made on demand, or by threads when they are packed.
import { borrowBytes, uninitialised } from "../../ffi/make.ts";
import { OPTIONS, simulation, type SimulationSpec, usual } from "./options.ts";
import type { SampleRole, Simulation } from "./simulation.ts";
import { type Source, source } from "../../core/data/source/source.ts";
import type { Libtorch } from "../../ffi/libraries/find.ts";
import { freeMemory } from "../../core/base/memory.ts";
import type { DataReader, DataRequest, Made, MakingThreads } from "../../core/data/format.ts";
import { checkCounts, openMade } from "../../core/data/synthetic/generate.ts";
import type { SampleRequest, SimulatedSample, SimulationThreadOptions } from "./thread.ts";
import { loadPackedReader, openPacked } from "../../core/data/shards/source.ts";

export function universes(spec: SimulationSpec, train: number, val: number): Made {
  const made = simulation(spec);
  checkCounts(train, val);
  return {
    ...made,
    train: streamed(made, "train", train),
    val: val > 0 ? streamed(made, "val", val) : null,
    threads: {
      most: () => Math.max(1, Math.floor(freeMemory() / 2 / (BYTES_A_CELL * spec.values.grid ** 3))),
      open: (libtorch, threads) => openPool(spec, libtorch, threads),
    },
  };
}

/** Making a sample takes this many bytes a grid cell at its peak, as measured. */
const BYTES_A_CELL = 150;

/** Making samples on demand needs no disk, but costs time in every epoch. */
function streamed(
  { kind, shape, targets, description, make }: Simulation,
  role: SampleRole,
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

/** The sizes are the model's where it has some. */
function madeFor({ data, training: { seed }, model }: DataRequest): Made {
  const kind = data.type as SimulationSpec["kind"];
  const { image_size: grid, channels } = model;
  const values = {
    ...usual(kind),
    targets: data.targets,
    ...(grid > 0 ? { grid } : {}),
    ...(channels > 0 ? { [kind === "2lpt" ? "maps" : "bins"]: channels } : {}),
  };
  return universes({ kind, seed, values } as SimulationSpec, data.train_samples, data.val_samples);
}

function openPool(spec: SimulationSpec, libtorch: Libtorch, threads: number): MakingThreads {
  const orders: SimulationThreadOptions = { spec, libtorch };
  const workers = Array.from({ length: threads }, (_, i) => {
    const worker = new Worker(new URL("./thread.ts", import.meta.url), {
      type: "module",
      name: `maker ${i + 1}`,
    });
    worker.postMessage(orders);
    return worker;
  });
  const ask = (worker: Worker, wanted: SampleRequest) =>
    new Promise<SimulatedSample>((resolve, reject) => {
      worker.onmessage = ({ data }: MessageEvent<SimulatedSample>) => resolve(data);
      worker.onerror = (event) => {
        event.preventDefault();
        reject(new Error(`internal: a thread that made sample ${wanted.id} ended: ${event.message}`));
      };
      worker.postMessage(wanted);
    });
  return {
    makers: workers.map((worker) => async (role, id) => {
      const { maps, targets } = await ask(worker, { role, id });
      return { input: new Uint8Array(maps.buffer), target: new Uint8Array(targets.buffer) };
    }),
    close() {
      for (const worker of workers) worker.terminate();
    },
  };
}

// `--data-type 2lpt` and `des`: simulated universes, read from their folder or made on demand.

const simulated = (kind: SimulationSpec["kind"]): DataReader => ({
  prepare: async ({ data_path }) => data_path === "" ? undefined : await loadPackedReader(data_path),
  open: (request) => openMade(request, madeFor, openPacked),
  made: madeFor,
  generator: {
    options: OPTIONS[kind],
    make: (values, { seed, samples, val_samples }) =>
      universes({ kind, seed, values } as SimulationSpec, samples, val_samples),
  },
});

export const readers = { "2lpt": simulated("2lpt"), des: simulated("des") };
