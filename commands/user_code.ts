// The user's TypeScript files that the settings name, opened with the library. May import core, mod.ts.
import type { Resolved } from "../core/config/resolve.ts";
import { openUserCode } from "../core/user/code.ts";
import { isCode } from "../core/user/export.ts";
import type { Library } from "../core/user/library.ts";

/** Notes the files' hash in the settings, so that ranks and checkpoints are compared by it. Without such files it is nothing. */
export async function withUserCode(resolved: Resolved): Promise<Resolved> {
  const { config } = resolved;
  const { model, training, data } = config;
  if (![model.name, training.loss, training.metric, data.code].some(isCode)) return resolved;
  const { address } = await import("./user_reader.ts");
  const code = await openUserCode(config, { ...await import("../mod.ts") } satisfies Library, address);
  return { ...resolved, config: { ...config, model: { ...model, code } } };
}
