// `hpctrain sbatch --site` from outside, and what a real SLURM with such partitions makes of the six sites' jobs.
import { assertEquals, assertMatch } from "@std/assert";
import { join } from "paths";
import { COMMAND, filesIn, inTemp, run, succeed, TINY } from "./program.ts";
import { resolveSettings } from "../../core/settings/resolve.ts";
import { MISSING, NEEDS, startBed } from "./slurm/bed.ts";
import { assertSentence, sentenceNamed } from "../sentences.ts";

Deno.test("what came from the site is said beside the script, and an unknown site is refused", () =>
  inTemp(async (cwd) => {
    const { stdout, stderr } = await succeed(["sbatch", "--site", "lumi", "--nodes", "2"], { cwd });
    assertMatch(stdout, /^#!\/bin\/bash\n[^]*--cpu-bind=mask_cpu:0xfe000000000000,[^]*\n$/);
    assertMatch(stderr, /^Site lumi: LUMI .* From it:\n {2}distributed\.gpus_per_node: 8\n/);
    const unknown = await run(["sbatch", "--site", "frontir"], { cwd });
    assertEquals(unknown.code, 2);
    assertSentence("integration/sites: hpctrain site unknown", unknown.stderr);
    Deno.writeTextFileSync(join(cwd, "mine.yaml"), "gpu:\n  gpus: 2\n  cpus: many\n");
    const own = await run(["sbatch", "--site", "mine.yaml"], { cwd });
    assertEquals([own.code, own.stderr], [
      2,
      sentenceNamed("integration/sites: hpctrain mine yaml"),
    ]);
    const sweep = await succeed(["sweep", "--site", "alps", "--model", "mlp", "--lr", "1e-3,1e-4"], { cwd });
    assertMatch(sweep.stderr, /^Site alps: /m);
    const array = filesIn(cwd).find((name) => name.endsWith("sweep.sh"))!;
    assertMatch(
      Deno.readTextFileSync(join(cwd, array)),
      /--gpus-per-node=4\n[^]*--array=0-1\n[^]*NCCL_PROTO/,
    );
  }));

Deno.test("on a login node of a site sbatch says that it knows it, and takes nothing from it", () =>
  inTemp(async (cwd) => {
    Deno.mkdirSync(join(cwd, "bin"));
    const program = (name: string, body: string) =>
      Deno.writeTextFileSync(join(cwd, "bin", name), `#!/bin/sh\n${body}\n`, { mode: 0o755 });
    program("scontrol", 'echo "ClusterName             = leonardo"');
    program("sbatch", "exit 0");
    const env = { PATH: `${join(cwd, "bin")}:${Deno.env.get("PATH")}` };
    const asked = await succeed(["sbatch", "--model=mlp", "--dry-run"], { cwd, env });
    assertSentence("integration/sites: slurm clustername leonardo", asked.stderr);
    assertSentence("integration/sites: nodes node tasks", asked.stdout);
    const byName = await succeed(["sbatch", "--model=mlp"], { cwd, env: { NERSC_HOST: "perlmutter" } });
    assertSentence("integration/sites: nersc_host perlmutter site", byName.stderr);
    assertEquals((await succeed(["sbatch", "--model=mlp"], { cwd, env })).stderr, ""); // SLURM isn't asked
  }));

/** As the sites have them: COUNT CPUS RESERVED GPUS MEGABYTES FEATURE PARTITIONS. */
const KINDS = `2 64 8 8 512000 gcd standard-g,small-g
2 128 0 0 229376 cpuc standard
2 64 8 8 512000 frontier batch
2 288 0 4 870000 gh200 booster
2 288 0 4 870000 gh normal
2 128 0 4 256000 gpu perlmutter
2 256 0 0 512000 cpu perlmutter
2 32 0 4 494000 a100 boost_usr_prod
2 112 0 0 494000 dcgp dcgp_usr_prod
`;

/** Processors of a job on two nodes, and where it goes. NERSC has no partitions, but features. */
const EXPECTED: Readonly<Record<string, { gpu: [number, string]; cpu: [number, string] }>> = {
  lumi: { gpu: [112, "standard-g"], cpu: [256, "standard"] },
  frontier: { gpu: [112, "batch"], cpu: [112, "batch"] },
  jupiter: { gpu: [576, "booster"], cpu: [576, "booster"] },
  alps: { gpu: [576, "normal"], cpu: [576, "normal"] },
  perlmutter: { gpu: [256, "gpu"], cpu: [512, "gpu"] },
  leonardo: { gpu: [64, "boost_usr_prod"], cpu: [224, "dcgp_usr_prod"] },
};

Deno.test({
  name:
    `a real SLURM with the sites' partitions and nodes takes each site's jobs, whole nodes of them ${NEEDS}`,
  ignore: MISSING,
  async fn() {
    const kinds = await Deno.makeTempFile();
    await Deno.writeTextFile(kinds, KINDS);
    const bed = await startBed(["--net", "lo", "--kinds", kinds]);
    try {
      const ask = (...words: string[]) =>
        bed.login([...COMMAND, "sbatch", "--account", "abc", "--time=60", ...words, "--dry-run"], {});
      const taken = (stdout: string) =>
        / using (\d+) processors on nodes \S+ in partition (\S+)/.exec(stdout)?.slice(1);
      for (const [site, { gpu, cpu }] of Object.entries(EXPECTED)) {
        const onGpus = await ask("--site", site, "--nodes=2", "--train-samples=100000");
        assertEquals(
          [onGpus.code, taken(onGpus.stdout)],
          [0, gpu.map(String)],
          onGpus.stdout + onGpus.stderr,
        );
        const onCpus = await ask("--site", site, "--nodes=2", "--preset=cpu-cluster");
        assertEquals(
          [onCpus.code, taken(onCpus.stdout)],
          [0, cpu.map(String)],
          onCpus.stdout + onCpus.stderr,
        );
      }
      const part = await ask("--site", "lumi", "--preset=single-gpu");
      assertEquals(taken(part.stdout), ["7", "small-g"], part.stdout + part.stderr);
      const { config } = resolveSettings({ argv: ["--site", "lumi"], env: {}, job: { command: "train" } });
      for (const words of [config.cluster.srun_args, ["--cpu-bind=cores", "--distribution=block:block"]]) {
        const tasks = ["--partition=standard-g", "--nodes=1", "--ntasks=8", "--cpus-per-task=7"];
        assertEquals(await bed.done(["srun", ...tasks, ...words, "echo", "here"]), "here\n".repeat(8));
      }
      // A site of one's own, as a job that runs: two ranks, one a domain as the file has them.
      const own =
        "cpu: { cpus: 8, domains: 2, cluster: { partition: standard, srun_args: [--cpu-bind=cores] } }\n";
      Deno.writeTextFileSync(join(bed.folder, "own.yaml"), own);
      const tiny = [...TINY, "--model=mlp", "--data-type=synthetic", "--run-name=own", "--time=5"];
      const stdout = await bed.done([...COMMAND, "sbatch", "--site", "own.yaml", ...tiny, "--submit"]);
      const id = Number(/^Submitted job (\d+)/.exec(stdout)![1]);
      const { state } = await bed.end(id);
      const output = Deno.readTextFileSync(join(bed.folder, `logs/slurm/own_${id}.out`));
      assertEquals(state, "COMPLETED", output);
      assertMatch(output, /training on 2 CPU ranks/);
      // The reserved cores are nobody's: "Jobs requesting 64 cores/node will never run."
      const reserved = await ask("--site", "lumi", "--cpus-per-task=8");
      assertEquals(reserved.code, 2);
      assertMatch(reserved.stderr, /Requested node configuration is not available/);
    } finally {
      await bed.stop();
      await Deno.remove(kinds);
    }
  },
});
