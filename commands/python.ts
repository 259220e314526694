// `hpctrain python`: a package for Python that reads what hpctrain writes.
import { isAbsolute } from "../deps/path.ts";
import { UserError } from "../core/base/errors.ts";
import { quote } from "../core/base/shell.ts";
import { parseOptions } from "../core/settings/options.ts";
import type { Command } from "./mod.ts";

const USAGE = "hpctrain python [FOLDER]";
const FOLDER = "hpctrain-python";

export const command: Command = {
  usage: USAGE,
  examples: ["hpctrain python", "hpctrain python ~/lib/hpctrain-python"],
  run: python,
};

export async function python(argv: string[]): Promise<number> {
  const { positionals: [folder = FOLDER, extra] } = parseOptions(argv, {}, USAGE);
  if (extra !== undefined) throw new UserError("usage", `Unexpected argument "${extra}". Usage: ${USAGE}`);
  const { writePythonPackage } = await import("../core/outputs/python/stubs.ts");
  writePythonPackage(folder);
  const place = isAbsolute(folder) ? folder : `./${folder}`;
  console.log(`Wrote ${folder}. Install it: pip install ${quote(place)}`);
  console.log("Then, in Python: import hpctrain; help(hpctrain)");
  return 0;
}
