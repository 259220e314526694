// `--search asha`: runs drawn at random, of which losers are stopped early.
import type { SearchMethod } from "../../core/cluster/sweep/search.ts";
import { climb } from "./halving.ts";

export const method: SearchMethod = { how: "drawn at random", climb };
