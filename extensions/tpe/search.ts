// `--search tpe`: the next run is where good runs are dense and the others are not.
import { key } from "../../core/base/random.ts";
import type { SearchMethod } from "../../core/cluster/sweep/search.ts";
import { valueOf } from "../../core/cluster/sweep/space.ts";
import { suggestPoint, type TriedPoint } from "./tpe.ts";

export const method: SearchMethod = {
  how: "chosen by TPE",
  beware: "TPE tries some values more than others, so take these as a hint.",
  suggest({ space, seed }, number, earlier) {
    const tried = earlier.map(({ words, ...rest }): TriedPoint => ({
      ...rest,
      point: space.map((dimension, d) => valueOf(dimension, words[d])),
    }));
    return suggestPoint(space, tried, key(seed, "sweep", "tpe", number));
  },
};
