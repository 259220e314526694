// `hpctrain new`: a commented, working file to begin with. Imports core/user, core/config.
import { parseOptions } from "../core/config/options.ts";
import { didYouMean } from "../core/config/suggest.ts";
import { UserError } from "../core/errors.ts";
import { type Kind, KINDS, writeNew } from "../core/user/new.ts";

const USAGE = "hpctrain new model|data|loss|metric [FILE]";

// deno-lint-ignore require-await
export async function newFile(argv: string[]): Promise<number> {
  const { positionals: [kind, file = `my_${kind}.ts`, extra] } = parseOptions(argv, {}, USAGE);
  if (extra !== undefined) throw new UserError("usage", `Unexpected argument "${extra}". Usage: ${USAGE}`);
  if (kind === undefined) throw new UserError("usage", `What is the file for? Usage: ${USAGE}`);
  if (!Object.hasOwn(KINDS, kind)) {
    const names = Object.keys(KINDS);
    throw new UserError(
      "usage",
      `There is no template of a "${kind}".${didYouMean(kind, names)} Usage: ${USAGE}`,
    );
  }
  if (!/\.(ts|mts)$/.test(file)) {
    throw new UserError(
      "usage",
      `${file} should end in .ts: hpctrain new ${kind} ${file.replace(/\.\w*$/, "")}.ts.`,
    );
  }
  writeNew(kind as Kind, file);
  console.log(`Wrote ${file}. Train with it: hpctrain ${KINDS[kind as Kind]} ${file}`);
  console.log("For an editor that knows the library: hpctrain types > hpctrain.d.ts, in the same folder.");
  return 0;
}
