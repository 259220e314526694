// The library in a script that lies anywhere: imported by its path, with no deno.json, no import map and no lock.
import { assert, assertEquals } from "@std/assert";
import { fromFileUrl } from "@std/path";
import { inTemp } from "./integration/program.ts";

const MOD = fromFileUrl(new URL("../mod.ts", import.meta.url));

async function deno(args: string[], cwd: string) {
  const { code, stdout, stderr } = await new Deno.Command(Deno.execPath(), {
    args,
    cwd,
    env: { NO_COLOR: "1" },
  }).output();
  const text = (bytes: Uint8Array) => new TextDecoder().decode(bytes);
  return { code, stdout: text(stdout), stderr: text(stderr) };
}

/** Its packages are in Deno's cache first, as they are after a first start. */
async function runScript(source: string, cwd: string) {
  Deno.writeTextFileSync(`${cwd}/script.ts`, source.replaceAll("MOD", JSON.stringify(MOD)));
  const cached = await deno(["cache", "--quiet", "script.ts"], cwd);
  assertEquals(cached.code, 0, cached.stderr);
  return await deno(["run", "--quiet", "--allow-all", "--cached-only", "script.ts"], cwd);
}

Deno.test("mod.ts imported by its path computes, in a folder that knows nothing of this project", () =>
  inTemp(async (cwd) => {
    const { code, stdout, stderr } = await runScript(
      `import { getDebugConfig, nn, openDevice, ops, scope } from MOD;
openDevice(getDebugConfig());
const layer = new nn.Linear(3, 2);
scope(() => console.log(JSON.stringify(layer.forward(ops.randn([8, 3])).shape)));`,
      cwd,
    );
    assertEquals(code, 0, stderr);
    assert(stdout.trim() === "[8,2]", stdout);
  }));
