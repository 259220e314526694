// `hpctrain pack SRC OUT.npz`: a table's columns by their names, any other data as x and y. Imports core.
import type { Config } from "../core/config/settings.ts";
import { hasColumns, openData } from "../core/data/open.ts";
import { kindOf } from "../core/data/packed/asked.ts";
import { withColumns } from "../core/data/packed/columns_of.ts";
import { packingOf } from "../core/data/packed/from_source.ts";
import { writeColumns, writeSamples, type Written } from "../core/data/packed/npz_file.ts";
import { openProgress } from "../core/data/packed/progress.ts";
import { formatBytes, formatDuration } from "../core/format.ts";

export function packNpz(config: Config, out: string, threads: number, say: (line: string) => void): void {
  const began = performance.now();
  const { arrays, bytes } = hasColumns(config.data)
    ? withColumns(kindOf(config.data), config.data, (columns, notes) => {
      notes.forEach(say);
      return writeColumns(out, columns);
    })
    : samplesTo(out, config, threads, say);
  const seconds = (performance.now() - began) / 1000;
  if (config.output.json) return console.log(JSON.stringify({ out, arrays, bytes, seconds }));
  const names = arrays.map(({ name, shape }) => `${name} [${shape.join(", ")}]`).join(", ");
  console.log(`Wrote ${names} to ${out}: ${formatBytes(bytes)} in ${formatDuration(seconds)}.`);
}

function samplesTo(out: string, config: Config, threads: number, say: (line: string) => void): Written {
  const { data, training, model, output } = config;
  const { train, val, notes } = openData(data, training, model);
  notes.forEach(say);
  const packing = packingOf(train, val, threads);
  const progress = openProgress("Writing", { quiet: output.quiet || output.json });
  try {
    return writeSamples(out, packing, progress.update);
  } finally {
    progress.clear();
    packing.close();
  }
}
