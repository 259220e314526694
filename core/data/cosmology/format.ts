import type { Format } from "../format.ts";
import { loadPackedReader } from "../formats/packed/packed.ts";
import { generated } from "./source.ts";

const simulated: Format = {
  endings: [],
  path: "",
  namesTargets: true,
  reader: async ({ data_path }) => data_path === "" ? undefined : await loadPackedReader(data_path),
  open: generated,
};

export const lpt = simulated, des = simulated;
