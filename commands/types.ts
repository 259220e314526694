// `hpctrain types`: prints the declarations that users' files import their types from. Imports core/user, core/config.
import { parseOptions } from "../core/config/options.ts";
import { UserError } from "../core/errors.ts";
import { declarations } from "../core/user/new.ts";

const USAGE = "hpctrain types > hpctrain.d.ts";

// deno-lint-ignore require-await
export async function types(argv: string[]): Promise<number> {
  const { positionals: [extra] } = parseOptions(argv, {}, USAGE);
  if (extra !== undefined) throw new UserError("usage", `Unexpected argument "${extra}". Usage: ${USAGE}`);
  console.log(declarations().trimEnd());
  return 0;
}
