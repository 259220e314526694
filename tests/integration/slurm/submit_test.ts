// What a user does: the executable in a folder of its own, and the first commands of docs/clusters.md, in a real SLURM.
import { pathExists } from "../../../core/base/files.ts";
import { assert, assertEquals, assertMatch } from "@std/assert";
import { join } from "paths";
import { blocksOf } from "../docs_blocks.ts";
import { prepareJob } from "../../../commands/run/job.ts";
import { COMMAND, eventsOf, EXE, ROOT } from "../program.ts";
import { type Bed, MISSING, NEEDS, startBed } from "./bed.ts";
import { assertSentence, sentenceNamed } from "../../sentences.ts";

let bed: Bed;
if (!MISSING) {
  Deno.test.beforeAll(async () => void (bed = await startBed()));
  Deno.test.afterAll(() => bed.stop());
}

/** The first block behind the mark in a page. */
function example(page: string, mark: string): string {
  const text = Deno.readTextFileSync(join(ROOT, page));
  const at = text.indexOf(`<!-- example: ${mark} -->`);
  assert(at >= 0, `${page} has no example "${mark}"`);
  return blocksOf(text.slice(at))[0].text;
}

for (const mpi of [true, false]) {
  Deno.test({
    name: `the first job of docs/clusters.md trains ${
      mpi ? "" : "without an MPI that is loaded, "
    }from a folder with nothing but the executable ${NEEDS}`,
    ignore: MISSING || EXE === null,
    fn: async () => {
      const cwd = join(bed.folder, `home-${mpi}`);
      Deno.mkdirSync(cwd);
      Deno.copyFileSync(EXE!, join(cwd, "hpctrain"));
      const env = {
        HPCTRAIN_LIBTORCH: Deno.env.get("HPCTRAIN_LIBTORCH")!,
        ...(mpi ? {} : { PATH: "/usr/bin:/bin", HPCTRAIN_CACHE: join(cwd, "cache") }),
      };
      const told = await bed.done(["bash", "-euc", example("docs/clusters.md", "first job of SLURM")], {
        cwd,
        env,
      });
      const id = Number(/^Submitted job (\d+) /m.exec(told)?.[1]);
      const { state } = await bed.end(id, 120);
      const out = Deno.readTextFileSync(join(cwd, `logs/slurm/first_${id}.out`));
      const errors = Deno.readTextFileSync(join(cwd, `logs/slurm/first_${id}.err`));
      assertEquals(state, "COMPLETED", out + errors);
      assertMatch(out, /^Starting distributed training on 4 CPU ranks$/m);
      assertMatch(out, mpi ? /^Communication: .*MPICH/m : /^Communication: 4 CPU ranks on 2 nodes by TCP; /m);
      assertMatch(out, /^Finished after .*: 3 epochs/m);
      assertEquals(eventsOf(cwd, "first").at(-1)!.code, 0);
    },
  });
}

Deno.test({
  name: `the two machines of docs/ranks.md train together, started by hand ${NEEDS}`,
  ignore: MISSING || EXE === null,
  fn: async () => {
    const cwd = join(bed.folder, "shared");
    Deno.mkdirSync(cwd);
    Deno.symlinkSync(EXE!, join(cwd, "hpctrain"));
    const env = { HPCTRAIN_LIBTORCH: Deno.env.get("HPCTRAIN_LIBTORCH")! };
    const type = (node: string, mark: string) =>
      bed.on(node, ["bash", "-euc", example("docs/ranks.md", mark)], { cwd, env });
    assertEquals((await type("node1", "secret")).code, 0);
    // The second machine is the first to come.
    const second = type("node2", "node 1");
    const [first, other] = await Promise.all([type("node1", "node 0"), second]);
    assertEquals([first.code, other.code], [0, 0], first.stderr + other.stderr);
    assertMatch(first.stdout, /^Starting distributed training on 4 CPU ranks\nMaster node: node1$/m);
    assertMatch(first.stdout, /^Finished after .*: 2 epochs/m);
    assertEquals(other.stdout, "");
  },
});

/** A script for `sbatch`, whose ranks are this command. */
async function scriptFor(line: string, program: readonly string[], cwd: string): Promise<string> {
  const { script } = await prepareJob(line.split(" "), "slurm", { env: {}, program: [...program] });
  const path = join(cwd, "job.sh");
  Deno.writeTextFileSync(path, script);
  Deno.mkdirSync(join(cwd, "logs/slurm"), { recursive: true });
  return path;
}

/** How a job ended, and all that it said. */
async function outcome(cwd: string, name: string, args: readonly string[], env: Record<string, string> = {}) {
  const id = Number(await bed.done(["sbatch", "--parsable", ...args], { cwd, env }));
  const { state, code } = await bed.end(id, 120);
  // The presets for clusters keep stderr in a file of its own.
  const said = ["out", "err"].map((end) => join(cwd, `logs/slurm/${name}_${id}.${end}`)).filter(pathExists)
    .map((path) => Deno.readTextFileSync(path)).join("");
  return { state, code, said };
}

Deno.test({
  name:
    `--export behind the file is applied in the job, which says where it belongs; other options end it with that line ${NEEDS}`,
  ignore: MISSING,
  fn: async () => {
    const cwd = join(bed.folder, "behind");
    Deno.mkdirSync(cwd);
    const file = await scriptFor("--preset debug --run-name behind --device cpu --threads 1", COMMAND, cwd);
    const env = { HPCTRAIN_LIBTORCH: Deno.env.get("HPCTRAIN_LIBTORCH")! };
    for (const behind of [["--export=ALL,EPOCHS=1"], ["--export", "EPOCHS=1"]]) {
      const { state, said } = await outcome(cwd, "behind", [file, ...behind], env);
      assertEquals(state, "COMPLETED", said);
      const lines = said.split("\n").filter((line) => line.includes("after the file"));
      assertEquals(lines, [
        sentenceNamed("integration/slurm/submit: hpctrain export stands"),
      ]);
      assertMatch(said, /^Changed for this job: --epochs=1$/m);
      assertMatch(said, /^Finished after .*: 1 epoch/m);
    }
    const wrong = await outcome(cwd, "behind", [file, "--time", "5"], env);
    assertEquals([wrong.state, wrong.code], ["FAILED", 2], wrong.said);
    assertMatch(wrong.said, /^hpctrain: --time 5 stands after the file, .* sbatch --time 5 FILE$/m);
    assertEquals(wrong.said.includes("Starting"), false);
    const right = await outcome(cwd, "behind", ["--export=ALL,EPOCHS=1", file], env);
    assertEquals(right.state, "COMPLETED", right.said);
    assertMatch(right.said, /^Changed for this job: --epochs=1$/m);
    assertMatch(right.said, /^Finished after .*: 1 epoch/m);
  },
});

Deno.test({
  name:
    `GPUS=2 starts two ranks in a job of four GPUs, --gpus-per-node=4 four in one of two, and GPUS=8 says what to submit instead ${NEEDS}`,
  ignore: MISSING,
  fn: async () => {
    const cwd = join(bed.folder, "gpus");
    Deno.mkdirSync(cwd);
    const stub = join(cwd, "ranks");
    Deno.writeTextFileSync(stub, '#!/bin/sh\necho "rank $SLURM_PROCID of $SLURM_NTASKS"\n', { mode: 0o755 });
    const file = await scriptFor(
      "--preset multi-gpu --gpus-per-node 4 --cpus-per-task 1 --job-name gpus",
      [stub],
      cwd,
    );
    const ranks = (said: string) => [...said.matchAll(/^rank \d of (\d)$/gm)].map(([, of]) => Number(of));
    const all = await outcome(cwd, "gpus", [file]);
    assertEquals([all.state, ranks(all.said)], ["COMPLETED", [4, 4, 4, 4]], all.said);
    const two = await outcome(cwd, "gpus", ["--export=ALL,GPUS=2", file]);
    assertEquals([two.state, ranks(two.said)], ["COMPLETED", [2, 2]], two.said);
    assertMatch(two.said, /^GPUS=2 of this job's 4 GPUs on each node are used\.$/m);
    // A script for two GPUs with two cores each, submitted for four: four ranks share its four cores.
    const small = await scriptFor(
      "--preset multi-gpu --gpus-per-node 2 --cpus-per-task 2 --job-name gpus",
      [stub],
      cwd,
    );
    const more = await outcome(cwd, "gpus", ["--gpus-per-node=4", small]);
    assertEquals([more.state, ranks(more.said)], ["COMPLETED", [4, 4, 4, 4]], more.said);
    assertMatch(more.said, /^4 ranks share the 4 cores that this job has on each node, 1 each; /m);
    await scriptFor("--preset multi-gpu --gpus-per-node 4 --cpus-per-task 1 --job-name gpus", [stub], cwd);
    const eight = await outcome(cwd, "gpus", ["--export=ALL,GPUS=8", file]);
    assertEquals([eight.state, eight.code, ranks(eight.said)], ["FAILED", 2, []], eight.said);
    assertMatch(eight.said, /this job has 4 GPUs .* sbatch --gpus-per-node=8 --ntasks-per-node=8 FILE$/m);
  },
});

Deno.test({
  name:
    `--env NAME brings the submitter's value into a job, whatever else is exported, and no file has it ${NEEDS}`,
  ignore: MISSING || EXE === null,
  fn: async () => {
    const cwd = join(bed.folder, "handed");
    Deno.mkdirSync(cwd);
    const key = `it's a "canary", $HOME #1`;
    const setup = 'echo "key has ${#OWN_KEY} letters, and $(printf %s "$OWN_KEY" | sha256sum | cut -c 1-8)"';
    const told = `key has ${key.length} letters, and ${(await sha256(key)).slice(0, 8)}`;
    const words = [
      "doctor",
      "--job-name",
      "handed",
      "--time=5",
      "--cpus-per-task=1",
      "--env",
      "OWN_KEY",
      "--setup",
      setup,
    ];
    const submit = async (env: Record<string, string>, ...more: string[]) => {
      const stdout = await bed.done([EXE!, "sbatch", ...words, ...more, "--submit"], {
        cwd,
        env: { OWN_KEY: key, ...env },
      });
      const id = Number(/^Submitted job (\d+)/.exec(stdout)![1]);
      await bed.end(id);
      return Deno.readTextFileSync(join(cwd, `logs/slurm/handed_${id}.out`));
    };
    const said = [
      await submit({}),
      await submit({}, "--sbatch-arg=--export=NONE"),
      await submit({ SBATCH_EXPORT: "NONE" }),
      await submit({ SBATCH_EXPORT: "HOME,PATH" }),
    ];
    for (const text of said) assertEquals(text.split("\n")[0], told, text);
    const lost = await outcome(cwd, "handed", ["logs/slurm/handed.sh"], {
      OWN_KEY: key,
      SBATCH_EXPORT: "NONE",
    });
    assertEquals([lost.state, lost.code], ["FAILED", 2], lost.said);
    assertMatch(
      lost.said,
      /OWN_KEY has not come with the job: .*submit so: sbatch --export=ALL,OWN_KEY FILE$/m,
    );
    const { stdout } = await new Deno.Command("grep", { args: ["-rl", "canary", cwd] }).output();
    assertEquals(new TextDecoder().decode(stdout), "");
  },
});

const sha256 = async (text: string): Promise<string> =>
  new Uint8Array(await crypto.subtle.digest("SHA-256", new TextEncoder().encode(text))).toHex();

Deno.test({
  name:
    `the line that a job's run goes on by is the line that began, with what changed, and it trains on ${NEEDS}`,
  ignore: MISSING,
  fn: async () => {
    const cwd = join(bed.folder, "goes-on");
    Deno.mkdirSync(cwd);
    const env = { HPCTRAIN_LIBTORCH: Deno.env.get("HPCTRAIN_LIBTORCH")! };
    const own = "--time 00:05:00 --cpus-per-task 1 --err-file --signal USR1@60 --ntasks-per-node 2";
    const flags = "--preset debug --threads 1 --device cpu --run-name goes";
    const job = async (line: string) => {
      const { stdout, stderr, code } = await bed.login(["bash", "-c", line], { cwd, env });
      assertEquals(code, 0, stderr);
      const id = Number(/^Submitted job (\d+) /m.exec(stdout)?.[1]);
      assertEquals((await bed.end(id, 120)).state, "COMPLETED");
      return Deno.readTextFileSync(join(cwd, `logs/slurm/goes_${id}.out`));
    };
    const program = COMMAND.join(" ");
    const out = await job(`${program} sbatch ${own} ${flags} --world-size 2 --epochs 1 --submit`);
    const line = /^ {2}train on +(\S.*)$/m.exec(out)![1];
    assertEquals(
      line.slice(line.indexOf(" sbatch ")),
      ` sbatch ${own} ${flags} --resume checkpoints/goes_latest.pt --epochs 2 --submit`,
    );
    const more = await job(`${program}${line.slice(line.indexOf(" sbatch "))}`);
    assertMatch(more, /^Starting distributed training on 2 CPU ranks$/m);
    assertMatch(more, /^Resuming from checkpoints\/goes_latest\.pt: epoch 1/m);
  },
});

Deno.test({
  name: `--submit shows the totals of --dry-run, and explains a refusal of SLURM's by them ${NEEDS}`,
  ignore: MISSING,
  fn: async () => {
    const cwd = join(bed.folder, "totals");
    Deno.mkdirSync(cwd);
    const run = (words: string) =>
      bed.login([...COMMAND, "sbatch", ...words.split(" ")], { cwd, env: { HPCTRAIN_DEVICE: "" } });
    const job = "--preset multi-gpu --gpus-per-node 2 --cpus-per-task 2 --time 5 --job-name totals";
    const [dry, submitted] = [await run(`${job} --dry-run`), await run(`${job} --submit`)];
    const totals = dry.stdout.split("\n").filter((line) =>
      /^(Nodes|Tasks|Cores|Memory|Time|Batch|Learning rate): /.test(line)
    );
    assertEquals(totals.length, 7, dry.stdout + dry.stderr);
    assertEquals(submitted.stderr.split("\n").slice(0, 7), totals, submitted.stdout);
    const id = /^Submitted job (\d+) /m.exec(submitted.stdout)![1];
    await bed.login(["scancel", id]);
    for (const how of ["--submit", "--dry-run"]) {
      const { code, stderr } = await run(`--preset multi-gpu --gpus-per-node 4 --mem 2G --time 5 ${how}`);
      assertEquals(code, 2, stderr);
      assertSentence("integration/slurm/submit: asked node nodes", stderr);
    }
  },
});
