// Help and completions load the flags of the commands and not the program behind them: a user's shell may evaluate
// the completions whenever it starts.
import { assert, assertEquals } from "@std/assert";
import { fromFileUrl } from "paths";
import { floorOf, importsOf } from "../../scripts/lint_floors.ts";

const ROOT = fromFileUrl(new URL("../../", import.meta.url));
/** These files are small, and their commands load them all the same. */
const EXCEPTIONS: Readonly<Record<string, readonly string[]>> = {
  "commands/new.ts": ["core/models/user/templates.ts"],
};

const read = (file: string) => importsOf(file, Deno.readTextFileSync(ROOT + file));

/** The files that are loaded with this one. Those that it imports later are not among them. */
function loadedWith(file: string, found = new Set<string>()): Set<string> {
  if (found.has(file)) return found;
  found.add(file);
  for (const { to, typeOnly } of read(file).atLoad) {
    if (!typeOnly && to.endsWith(".ts")) loadedWith(to, found);
  }
  return found;
}

const aboveSettings = (file: string): boolean =>
  floorOf(file) > floorOf("core/settings") && floorOf(file) < floorOf("commands");

Deno.test("a command's help and the completions load nothing above the floor of settings", () => {
  const commands = [...new Set(read("commands/mod.ts").later.map(({ to }) => to))];
  assert(commands.length > 20, commands.join());
  for (const file of ["main.ts", "commands/help.ts", ...commands]) {
    const heavy = [...loadedWith(file)].filter((loaded) =>
      aboveSettings(loaded) || loaded.startsWith("ffi/")
    );
    assertEquals(heavy.sort(), EXCEPTIONS[file] ?? [], file);
  }
});
