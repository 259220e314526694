// Every transform of a list, by its name here.
import type { Kind } from "./kind.ts";
import { PLACES } from "./places.ts";
import { POLICY_KINDS } from "./policies.ts";
import { SERIES } from "./series.ts";
import { COLOURS, VALUES } from "./values.ts";

export const KINDS: Readonly<Record<string, Kind>> = {
  ...PLACES,
  ...COLOURS,
  ...VALUES,
  ...SERIES,
  ...POLICY_KINDS,
};
