// The package for Python users, which `hpctrain python` writes: it reads checkpoints, predictions and runs. Its files lie in
// the folder beside this one, which is embedded in the executable.
import { dirname, join } from "../../../deps/path.ts";
import { UserError } from "../../base/errors.ts";
import { pathExists } from "../../base/files.ts";
import { writing } from "../../base/new_file.ts";
import { VERSION } from "../../base/version.ts";

const PACKAGE_FILES = [
  "pyproject.toml",
  "hpctrain/__init__.py",
  "hpctrain/checkpoints.py",
  "hpctrain/predictions.py",
  "hpctrain/runs.py",
] as const;

const textOf = (file: string): string =>
  Deno.readTextFileSync(new URL(`./package/${file}`, import.meta.url)).replace("VERSION", VERSION);

/** Files that exist stay as they are. */
export function writePythonPackage(folder: string): void {
  const existing = PACKAGE_FILES.map((file) => join(folder, file)).find(pathExists);
  if (existing !== undefined) {
    throw new UserError(
      "usage",
      `${existing} is there already, and is left as it is. Remove it, or name another folder: hpctrain python FOLDER.`,
    );
  }
  for (const file of PACKAGE_FILES) {
    const path = join(folder, file);
    writing(path, () => {
      Deno.mkdirSync(dirname(path), { recursive: true });
      Deno.writeTextFileSync(path, textOf(file), { createNew: true });
    });
  }
}
