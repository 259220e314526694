// The library in a script that lies anywhere: imported by its path, with no deno.json, no import map and no lock.
import { assert, assertEquals, assertMatch } from "@std/assert";
import { fromFileUrl } from "paths";
import { inTemp } from "./integration/program.ts";
import { assertSentence } from "./sentences.ts";

const MOD = fromFileUrl(new URL("../mod.ts", import.meta.url));

async function deno(args: string[], cwd: string, env: Record<string, string> = {}) {
  const { code, stdout, stderr } = await new Deno.Command(Deno.execPath(), {
    args,
    cwd,
    env: { NO_COLOR: "1", ...env },
  }).output();
  const text = (bytes: Uint8Array) => new TextDecoder().decode(bytes);
  return { code, stdout: text(stdout), stderr: text(stderr) };
}

/** Its packages are in Deno's cache first, as they are after a first start. */
async function runScript(source: string, cwd: string, env: Record<string, string> = {}) {
  Deno.writeTextFileSync(`${cwd}/script.ts`, source.replaceAll("MOD", JSON.stringify(MOD)));
  const cached = await deno(["cache", "--quiet", "script.ts"], cwd);
  assertEquals(cached.code, 0, cached.stderr);
  return await deno(["run", "--quiet", "--allow-all", "--cached-only", "script.ts"], cwd, env);
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

Deno.test("train(config) trains a preset's configuration from any folder, as the program does, and the script ends", () =>
  inTemp(async (cwd) => {
    const { code, stdout, stderr } = await runScript(
      `import { getDebugConfig, train } from MOD;
const config = getDebugConfig();
config.training.epochs = 2;
config.training.optimizer.learning_rate = 0.002;
const { stopped, run, checkpoints } = await train(config);
console.log(JSON.stringify({ stopped, run, best: Deno.statSync(checkpoints + "/" + run + "_best.pt").isFile }));`,
      cwd,
      { EPOCHS: "5", HPCTRAIN_SEED: "7" },
    );
    assertEquals(code, 0, stderr);
    assertEquals(JSON.parse(stdout.trim().split("\n").at(-1)!), { stopped: false, run: "debug", best: true });
    assertMatch(stdout, /^Batch: .* Learning rate: 0.002 \(train\(config\)\), not scaled/m);
    const events = Deno.readTextFileSync(`${cwd}/logs/debug/events.jsonl`).trim().split("\n").map((line) =>
      JSON.parse(line)
    );
    const { config, origins } = events.find(({ kind }) => kind === "config");
    assertEquals(config.training.epochs, 2); // what the program says counts more than the environment, that more than a preset
    assertEquals([config.training.seed, origins["training.batch_size"]], [7, "preset debug"]);
    assertEquals(events.at(-1).code, 0);
    assert(!stdout.includes("train on")); // no command of ours does this run again
    const again = Deno.readTextFileSync(`${cwd}/script.ts`).replace(
      "config.training.epochs = 2",
      "config.training.epochs = -2",
    );
    const wrong = await runScript(again, cwd);
    assertEquals(wrong.code, 1);
    assertSentence("mod_by_path: usererror train config", wrong.stderr);
  }));

Deno.test("train(config) gives a program its signals back: nobody has caught them, Ctrl-C included, after a run that they stopped", () =>
  inTemp(async (cwd) => {
    const source = (signal: Deno.Signal) =>
      `import { getDebugConfig, train } from MOD;
const config = getDebugConfig();
config.training.epochs = 1000000;
const log = "logs/debug/events.jsonl";
const asking = setInterval(() => {
  try {
    if (!Deno.readTextFileSync(log).includes('"kind":"step"')) return;
    clearInterval(asking);
    Deno.kill(Deno.pid, "SIGUSR1");
  } catch { /* no run yet */ }
}, 5);
const { stopped } = await train(config);
let heard = 0;
const hear = () => void heard++;
Deno.addSignalListener("SIGINT", hear);
Deno.kill(Deno.pid, "SIGINT");
await new Promise((resolve) => setTimeout(resolve, 200));
Deno.removeSignalListener("SIGINT", hear);
console.log(JSON.stringify({ stopped, heard }));
Deno.kill(Deno.pid, "${signal}");
await new Promise((resolve) => setTimeout(resolve, 2000));`;
    for (const [signal, code] of [["SIGUSR1", 138], ["SIGTERM", 143]] as const) {
      const ended = await runScript(source(signal), cwd);
      const last = ended.stdout.trim().split("\n").at(-1)!;
      assertEquals(JSON.parse(last), { stopped: true, heard: 1 }, ended.stderr);
      assertEquals(ended.code, code);
      for (const folder of ["logs", "checkpoints"]) Deno.removeSync(`${cwd}/${folder}`, { recursive: true });
    }
  }));
