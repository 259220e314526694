// The executable by itself: in an empty folder, started often, and on a machine that reaches no network.
import { assert, assertEquals, assertMatch } from "@std/assert";
import { join } from "paths";
import { EXE, filesIn, inTemp, run, succeed, TINY } from "./program.ts";
import { within } from "../cpu_time.ts";

const needsExe = EXE ? "" : " (needs the executable that HPCTRAIN_EXE names)";

Deno.test({
  name: `copied to an empty folder, the executable trains and leaves checkpoints and logs only${needsExe}`,
  ignore: !EXE,
  fn: () =>
    inTemp(async (folder) => {
      const [bin, home] = ["bin", "home"].map((name) => join(folder, name));
      for (const made of [bin, home]) Deno.mkdirSync(made);
      Deno.copyFileSync(EXE!, join(bin, "hpctrain"));
      const env = { HPCTRAIN_LIBTORCH: Deno.env.get("HPCTRAIN_LIBTORCH")!, HOME: home };
      const command = new Deno.Command(join(bin, "hpctrain"), {
        args: ["--preset", "debug", "--device", "cpu"],
        cwd: bin,
        env,
        clearEnv: true,
      });
      const { code, stdout, stderr } = await command.output();
      assertEquals(code, 0, new TextDecoder().decode(stderr));
      assertMatch(new TextDecoder().decode(stdout), /^Finished after .*: 3 epochs, 96 steps\./m);
      const plain = (name: string) =>
        // but for the W&B run's time and id
        name.replace(/-\d{8}_\d{6}-\w{8}\//, "/").replace(/run-\w{8}\.wandb$/, "run.wandb");
      assertEquals(filesIn(folder).map(plain), [
        "bin/checkpoints/debug_best.pt",
        "bin/checkpoints/debug_latest.pt",
        "bin/hpctrain",
        "bin/logs/debug/diagnostics.json",
        "bin/logs/debug/events.jsonl",
        "bin/logs/debug/lineage.json",
        "bin/logs/debug/rank-0.log",
        "bin/logs/debug/wandb.json",
        "bin/logs/wandb/offline-run/files/wandb-metadata.json",
        "bin/logs/wandb/offline-run/run.wandb",
      ]);
    }),
});

Deno.test({
  name: `--help of the executable takes less than 150 ms${needsExe}`,
  ignore: !EXE,
  fn: async () => {
    const times: number[] = [];
    // Other tests run beside it, and one quiet moment shows what it takes.
    while (times.length < 5 || times.length < 25 && !within(Math.min(...times), 150)) {
      const began = performance.now();
      const { stdout } = await succeed(["--help"]);
      times.push(performance.now() - began);
      assertMatch(stdout, /hpctrain --preset quickstart/);
    }
    assert(
      within(Math.min(...times), 150),
      `the best of ${times.length} took ${Math.min(...times).toFixed(0)} ms`,
    );
  },
});

/** Whether a program can be run, and does what it is for here. */
async function works(program: string, ...args: string[]): Promise<boolean> {
  try {
    return (await new Deno.Command(program, { args, stdout: "null", stderr: "null" }).output()).success;
  } catch {
    return false;
  }
}

const unshare = await works("unshare", "-n", "true");
const strace = !unshare && await works("strace", "-o", "/dev/null", "true");

Deno.test({
  name: `training needs no network${
    unshare || strace ? "" : " (needs root and unshare, or strace, to watch for connections)"
  }`,
  ignore: !unshare && !strace,
  fn: () =>
    inTemp(async (cwd) => {
      // A network of its own, without so much as a loopback device that is up; or every connection written down.
      const through = unshare ? ["unshare", "-n"] : ["strace", "-f", "-e", "trace=connect", "-o", "calls"];
      const { code, stdout, stderr } = await run([...TINY, "--run-name=r"], { cwd, through });
      assertEquals([code, stderr], [0, ""], stdout);
      if (!unshare) assert(!/AF_INET/.test(Deno.readTextFileSync(join(cwd, "calls"))));
      assert(filesIn(cwd).includes("checkpoints/r_latest.pt"));
    }),
});
