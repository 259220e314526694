// Runs a user's script in the user's own Python, with watch/sitecustomize.py before everything else.
import { join, resolve } from "../../deps/path.ts";
import { UserError } from "../base/errors.ts";

const FILES = [
  "sitecustomize.py",
  ...[
    "__init__",
    "seen",
    "drawn",
    "graph",
    "program",
    "written",
    "timed",
    "data",
    "known",
    "copied",
    "around",
    "length",
  ].map((
    name,
  ) => `hpctrain_adopt/${name}.py`),
];

/** Until the script has taken so many steps, or ended. What it prints is printed. */
export async function watch(
  [program, ...args]: readonly string[],
  { out, ...asked }: { readonly out: string; readonly steps: number; readonly copy: boolean },
): Promise<void> {
  const folder = Deno.makeTempDirSync({ prefix: "hpctrain-adopt-" });
  try {
    Deno.mkdirSync(join(folder, "hpctrain_adopt"));
    for (const name of FILES) {
      Deno.writeTextFileSync(
        join(folder, name),
        Deno.readTextFileSync(new URL(`./watch/${name}`, import.meta.url)),
      );
    }
    const { PYTHONPATH = "" } = Deno.env.toObject();
    const child = new Deno.Command(program, {
      args,
      env: {
        PYTHONPATH: PYTHONPATH === "" ? folder : `${folder}:${PYTHONPATH}`,
        HPCTRAIN_ADOPT: JSON.stringify({ ...asked, out: resolve(out) }),
      },
      stdin: "inherit",
      stdout: "inherit",
      stderr: "inherit",
    }).spawn();
    await child.status;
  } catch (cause) {
    if (!(cause instanceof Deno.errors.NotFound || cause instanceof Deno.errors.PermissionDenied)) {
      throw cause;
    }
    throw new UserError(
      "usage",
      `${program} can't be started: name the Python that the script runs with, such as python ${program}.`,
      { cause },
    );
  } finally {
    Deno.removeSync(folder, { recursive: true });
  }
}
