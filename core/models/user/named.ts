// The library as users' files get it: a name that it lacks is told at once, with the one that was meant.
import { nearest } from "../../base/suggest.ts";
import type { LibraryContext } from "./file.ts";

/** As the engine's own, so that it is told with the file and the line. */
class UnknownName extends TypeError {}

/** Groups whose names are those of PyTorch, or near them. */
const GROUPS = ["nn", "ops"] as const;

export function withKnownNames<L extends LibraryContext>(library: L): L {
  const groups = GROUPS.map((group) => [group, checked(group, (library as Record<string, unknown>)[group])]);
  return { ...library, ...Object.fromEntries(groups) };
}

function checked(group: string, names: unknown): unknown {
  if (typeof names !== "object" || names === null) return names;
  return new Proxy({ ...names }, {
    get(known, name, self) {
      // `await` asks everything for `then`.
      if (typeof name === "symbol" || name in known || name === "then") return Reflect.get(known, name, self);
      const near = nearest(name, Object.keys(known));
      throw new UnknownName(
        `${group} has no ${name}.${near === null ? "" : ` Did you mean ${group}.${near}?`} ` +
          "`hpctrain types > hpctrain.d.ts` writes all names for your editor.",
      );
    },
  });
}
