// `hpctrain config`: each value of the effective configuration, and where it came from. Imports core/config.
import { stringify } from "../deps/yaml.ts";
import { settingsPage } from "../core/config/docs.ts";
import { parseOptions } from "../core/config/options.ts";
import { resolve, type Resolved } from "../core/config/resolve.ts";
import { jsonSchema } from "../core/config/schema.ts";
import { ALL, read } from "../core/config/tree.ts";
import { CONFIG_OPTIONS } from "./options.ts";

const USAGE = "hpctrain config [FLAGS] [--json | --yaml | --schema | --docs]";

// deno-lint-ignore require-await
export async function config(argv: string[]): Promise<number> {
  const own = argv.filter((word) =>
    Object.hasOwn(CONFIG_OPTIONS, word.replace(/^--/, "")) && word.startsWith("--")
  );
  const { options } = parseOptions(own, CONFIG_OPTIONS, USAGE);
  if (options.schema) return print(JSON.stringify(jsonSchema(), null, 2));
  if (options.docs) return print(settingsPage().trimEnd());
  const resolved = resolve({
    argv: argv.filter((word) => !own.includes(word)),
    env: Deno.env.toObject(),
    usage: USAGE,
  });
  if (options.yaml) return print(stringify(resolved.config).trimEnd());
  if (options.json) return print(JSON.stringify(asJson(resolved), null, 2));
  return print(table(resolved));
}

function asJson({ config, origin, preset, files }: Resolved) {
  return { preset, files, config, origin: Object.fromEntries(ALL.map(({ path }) => [path, origin(path)])) };
}

/** Grouped by section, in three aligned columns. */
export function table({ config, origin }: Resolved): string {
  const rows = ALL.map(({ path, setting }) => {
    const value = read(config, path);
    const plain = Array.isArray(value) ? value.join(",") : String(value);
    const stands = setting.empty && JSON.stringify(value) === JSON.stringify(setting.default);
    const shown = stands ? `${plain} (${setting.empty})`.trim() : plain;
    return { section: path.split(".")[0], key: path.slice(path.indexOf(".") + 1), shown, from: origin(path) };
  });
  const keys = Math.max(...rows.map(({ key }) => key.length));
  const values = Math.min(44, Math.max(...rows.map(({ shown }) => shown.length)));
  const lines = rows.map(({ section, key, shown, from }, i) => {
    const title = section === rows[i - 1]?.section ? "" : `${i > 0 ? "\n" : ""}${section}\n`;
    return `${title}  ${key.padEnd(keys)}  ${shown.padEnd(values)}  ${from}`;
  });
  return lines.join("\n");
}

function print(text: string): number {
  console.log(text);
  return 0;
}
