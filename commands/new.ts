// `hpctrain new`: a commented, working file to begin with. `hpctrain types`: the declarations that such files import
// their types from.
import { parseOptions } from "../core/settings/options.ts";
import { didYouMean } from "../core/base/suggest.ts";
import { UserError } from "../core/base/errors.ts";
import {
  TEMPLATE_KINDS,
  type TemplateKind,
  typeDeclarations,
  writeTemplate,
} from "../core/models/user/templates.ts";
import { isPython } from "../core/base/files.ts";
import type { Command } from "./mod.ts";

const USAGE = "hpctrain new model|data|loss|metric|optimizer [FILE]";

export const command: Command = {
  usage: USAGE,
  examples: ["hpctrain new model", "hpctrain new data maps.ts", "hpctrain new data maps.py"],
  words: Object.keys(TEMPLATE_KINDS),
  run: newFile,
};

// deno-lint-ignore require-await
async function newFile(argv: string[]): Promise<number> {
  const { positionals: [kind, file = `my_${kind}.ts`, extra] } = parseOptions(argv, {}, USAGE);
  if (extra !== undefined) throw new UserError("usage", `Unexpected argument "${extra}". Usage: ${USAGE}`);
  if (kind === undefined) throw new UserError("usage", `What is the file for? Usage: ${USAGE}`);
  if (!Object.hasOwn(TEMPLATE_KINDS, kind)) {
    const names = Object.keys(TEMPLATE_KINDS);
    throw new UserError(
      "usage",
      `There is no template of a "${kind}".${didYouMean(kind, names)} Usage: ${USAGE}`,
    );
  }
  if (!/\.(ts|mts)$/.test(file) && !(kind === "data" && isPython(file))) {
    throw new UserError(
      "usage",
      `${file} should end in .ts: hpctrain new ${kind} ${file.replace(/\.\w*$/, "")}.ts.`,
    );
  }
  const known = kind as TemplateKind;
  writeTemplate(known, file);
  console.log(`Wrote ${file}. Train with it: hpctrain ${TEMPLATE_KINDS[known]} ${file}`);
  if (isPython(file)) return 0;
  console.log("For an editor that knows the library: hpctrain types > hpctrain.d.ts, in the same folder.");
  return 0;
}

// `hpctrain types`: prints the declarations that users' files import their types from.

const TYPES_USAGE = "hpctrain types > hpctrain.d.ts";

export const typesCommand: Command = {
  usage: TYPES_USAGE,
  examples: ["hpctrain types > hpctrain.d.ts"],
  run: types,
};

// deno-lint-ignore require-await
export async function types(argv: string[]): Promise<number> {
  const { positionals: [extra] } = parseOptions(argv, {}, TYPES_USAGE);
  if (extra !== undefined) {
    throw new UserError("usage", `Unexpected argument "${extra}". Usage: ${TYPES_USAGE}`);
  }
  console.log(typeDeclarations().trimEnd());
  return 0;
}
