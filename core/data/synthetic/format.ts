import type { Format } from "../format.ts";

const madeUp = (kind: "synthetic" | "fields"): Format => ({
  endings: [],
  path: null,
  load: async () => (await import("./made_up.ts")).madeUpReaders[kind],
});

export const synthetic = madeUp("synthetic"), fields = madeUp("fields");
