// What the training samples are like: measured once, then remembered beside the data. May import format, packed's
// progress line, its siblings.
import { formatDuration, formatPlural } from "../../format.ts";
import { openProgress } from "../packed/progress.ts";
import { digest, fingerprint, lookUp, placesFor, remember, type Statistics } from "./cache.ts";
import { type Measurable, measure, type Measures, mergeMeasures } from "./measure.ts";
import { deviations } from "./moments.ts";

export type { Statistics };

export interface What {
  /** The file or folder of the data; empty for data that is made up, which nobody remembers. */
  readonly path: string;
  /** All that decides which samples these are and what is done to them: plain data. */
  readonly settings: unknown;
  /** Which of the data's samples these are, where there is a list of them. */
  readonly indices?: Int32Array | null;
}

export interface Stated {
  readonly statistics: Statistics;
  /** For the user: what was measured or found, and where it is kept. */
  readonly notes: readonly string[];
}

/** Of these samples: the training samples, so that nothing of the others is known to the model. */
export function statisticsOf(samples: Measurable, what: What, quiet = true): Stated {
  if (what.path === "") return { statistics: measured(samples, quiet), notes: [] };
  const of = hashOf(samples, what), places = placesFor(what.path);
  const { statistics, damaged } = lookUp(places, of);
  if (statistics) {
    return { statistics, notes: [`Statistics of ${said(statistics)}, as measured before`] };
  }
  const start = performance.now();
  const found = measured(samples, quiet);
  const kept = remember(places, of, found);
  const took = formatDuration((performance.now() - start) / 1000);
  const where = kept ? `kept in ${kept}` : "kept nowhere, as neither its folder nor the cache can be written";
  return {
    statistics: found,
    notes: [
      `Statistics of ${said(found)}, measured in ${took}, ${where}` +
      (damaged ? `; what was kept in ${damaged} is damaged` : ""),
    ],
  };
}

/** All of large data is read for it: a line says how far it is. */
function measured(samples: Measurable, quiet: boolean): Statistics {
  const progress = openProgress("Measuring", { quiet });
  try {
    const all = measure(samples, 0, 1, (done, total) => progress.update({ done, kept: 0, total }));
    return stated(mergeMeasures([all]));
  } finally {
    progress.clear();
  }
}

const said = ({ samples }: Statistics) => formatPlural(samples, "training sample");

export const stated = ({ samples, input, classes }: Measures): Statistics => ({
  samples,
  mean: input.mean,
  std: deviations(input),
  min: input.min,
  max: input.max,
  classes,
});

function hashOf({ length, facts }: Measurable, { path, settings, indices }: What): string {
  const which = indices ? digest(new Uint8Array(Int32Array.from(indices).buffer)) : null;
  return digest(JSON.stringify({ files: fingerprint(path), length, facts, settings, which }));
}
