import type { Format } from "../../core/data/format.ts";

const simulated = (kind: "2lpt" | "des"): Format => ({
  endings: [],
  path: "",
  namesTargets: true,
  load: async () => (await import("./universes.ts")).readers[kind],
});

export const formats: Readonly<Record<string, Format>> = { "2lpt": simulated("2lpt"), des: simulated("des") };
