// A run notes what it was validated on: losses are compared only where that is the same.
import { formatPlural } from "../base/format.ts";

export interface Validation {
  /** A path, or what was made up. */
  readonly data: string;
  readonly samples: number;
  /** The same where the samples and their targets are. */
  readonly id: string;
}

/** It stands in a run's event. Another program may have written the log. */
export function noted(run: { readonly validation?: unknown } | null): { readonly validation?: Validation } {
  const { data, samples, id } = (run?.validation ?? {}) as Partial<Validation>;
  return typeof data === "string" && typeof samples === "number" && typeof id === "string"
    ? { validation: { data, samples, id } }
    : {};
}

/** Why these runs are not compared, in a sentence; null where they are. */
export function whyUnlike(runs: readonly (Validation | undefined)[]): string | null {
  const unlike = Map.groupBy(runs, (validation) => validation?.id);
  if (unlike.size < 2) return null;
  const texts = [...unlike.values()].map(([one]) =>
    one ? `${one.data} (${formatPlural(one.samples, "sample")})` : "data that a log does not name"
  );
  const names = [...new Set(texts)];
  const on = names.length > 1 ? names.join(", ") : `other samples or targets of ${names[0]}`;
  return `No run is named best, because they were validated on different data: ${on}.`;
}
