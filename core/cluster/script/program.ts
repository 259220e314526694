// The words that start this program again: for a script, and for a person to type. Imports @std/path.
import { fromFileUrl } from "../../../deps/path.ts";
import { quoted } from "./shell_words.ts";

/** The executable; or Deno and the sources. */
export function thisProgram(): string[] {
  return Deno.build.standalone
    ? [Deno.execPath()]
    : [Deno.execPath(), "run", "--quiet", "--allow-all", "--no-check", fromFileUrl(Deno.mainModule)];
}

/** The executable as it was called, since it may not be on the PATH. */
export function programAsCalled(): string {
  if (!Deno.build.standalone) return quoted(thisProgram());
  const [called] = Deno.readTextFileSync("/proc/self/cmdline").split("\0");
  const here = `${Deno.cwd()}/`;
  return quoted([called.startsWith(here) ? `./${called.slice(here.length)}` : called]);
}
