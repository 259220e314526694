// `hpctrain presets`: lists the embedded presets, or prints one. Imports core/config.
import { UserError } from "../core/errors.ts";
import { helpLine } from "../core/config/help.ts";
import { parseOptions } from "../core/config/options.ts";
import { layoutInWords, loadPreset, PRESET_NAMES } from "../core/config/presets.ts";

const USAGE = "hpctrain presets [NAME]";

// deno-lint-ignore require-await
export async function presets(argv: string[]): Promise<number> {
  const { positionals: [name, extra] } = parseOptions(argv, {}, USAGE);
  if (extra !== undefined) throw new UserError("usage", `Unexpected argument "${extra}". Usage: ${USAGE}`);
  console.log(name === undefined ? table() : loadPreset(name, "hpctrain presets").source.trimEnd());
  return 0;
}

function table(): string {
  return PRESET_NAMES.map((name) => loadPreset(name))
    .map(({ name, about, layout }) => helpLine(name, `${about} [${layoutInWords(layout)}]`))
    .join("\n");
}
