// What the tests of the configuration share.
import { assertThrows } from "@std/assert";
import type { Setting } from "../../../core/settings/setting.ts";
import { type Resolved, resolveSettings, type SettingsRequest } from "../../../core/settings/resolve.ts";
import { UserError } from "../../../core/base/errors.ts";

/** A good value that is not the default, as text and as data. */
export function sample(setting: Setting): { text: string; data: unknown } {
  const { kind, min = 0, max = 1, above, default: initial, choices, units, pattern } = setting;
  switch (kind) {
    case "int": {
      const data = (initial as number) + 1 <= max ? (initial as number) + 1 : min;
      return { text: String(data), data };
    }
    case "float": {
      const fits = (value: number) =>
        value !== initial && value <= max && (above ? value > min : value >= min);
      const data = [0.25, 0.5, min + 0.25, min, max].find(fits)!;
      return { text: String(data), data };
    }
    case "bool":
      return { text: String(!initial), data: !initial };
    case "choice": {
      const data = choices.find((name) => name !== initial)!;
      return { text: data, data };
    }
    case "duration": {
      const data = "7" +
        { steps: "steps", epochs: "ep", tokens: "tok", samples: "samples", seconds: "s" }[units![0]];
      return { text: data, data };
    }
    case "list":
      return choices.length > 0
        ? { text: choices.slice(0, 2).join(), data: choices.slice(0, 2) }
        : { text: ["a", "b"].join(setting.separator ?? ","), data: ["a", "b"] };
    case "path":
    case "text": {
      const data = [
        "some-name",
        "01:00:00",
        "64G",
        "USR2@60",
        "gpu:a100:4",
        "samples.ts",
        "3-9",
        "time",
        "1..6",
        "64x64",
        "balanced",
        "0.25",
      ].find((
        text,
      ) => pattern?.regex.test(text) ?? true)!;
      return { text: data, data };
    }
  }
}

export function fromArgv(...argv: string[]): Resolved {
  return resolveSettings({ argv, env: {} });
}

/** A file of settings that exists while `use` runs; its name is what origins begin with. */
export function withFile<T>(source: string | Uint8Array<ArrayBuffer>, use: (path: string) => T): T {
  const folder = Deno.makeTempDirSync();
  try {
    const path = `${folder}/run.yaml`;
    Deno.writeFileSync(path, typeof source === "string" ? new TextEncoder().encode(source) : source);
    return use(path);
  } finally {
    Deno.removeSync(folder, { recursive: true });
  }
}

export function fromFile(source: string, ...argv: string[]): Resolved {
  return withFile(source, (path) => fromArgv("--config", path, ...argv));
}

/** The sentence of a refusal, with the folder of the file cut off. */
export function refusal(request: Partial<SettingsRequest>): string {
  return sentence(() => resolveSettings({ argv: [], env: {}, ...request }));
}

export function sentence(run: () => unknown): string {
  const error = assertThrows(run, UserError);
  if (error.exitCode !== 2) throw new Error(`exit code ${error.exitCode}, expected 2: ${error.message}`);
  return error.message;
}

export function refusedFile(source: string | Uint8Array<ArrayBuffer>): string {
  return withFile(source, (path) => {
    return refusal({ argv: ["--config", path] }).replaceAll(path, "run.yaml");
  });
}
