// `--data-type 2lpt` and `des`: simulated universes, read from their folder or made on demand.
import type { Format } from "../../core/data/format.ts";
import { loadPackedReader, openPacked } from "../../core/data/shards/source.ts";
import { openMade } from "../../core/data/synthetic/generate.ts";
import { madeFor, universes } from "./made.ts";
import { OPTIONS, type SimulationSpec } from "./options.ts";

const simulated = (kind: SimulationSpec["kind"]): Format => ({
  endings: [],
  path: "",
  namesTargets: true,
  reader: async ({ data_path }) => data_path === "" ? undefined : await loadPackedReader(data_path),
  open: (request) => openMade(request, madeFor, openPacked),
  made: madeFor,
  generator: {
    options: OPTIONS[kind],
    make: (values, { seed, samples, val_samples }) =>
      universes({ kind, seed, values } as SimulationSpec, samples, val_samples),
  },
});

export const formats: Readonly<Record<string, Format>> = { "2lpt": simulated("2lpt"), des: simulated("des") };
