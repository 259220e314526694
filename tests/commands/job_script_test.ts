// Words -> job scripts: the ready ones in docs/scripts, and what is refused.
import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { join } from "paths";
import { prepareJob } from "../../commands/run/job.ts";
import { renderPbs } from "../../core/cluster/script/pbs.ts";
import { renderSlurm } from "../../core/cluster/script/slurm.ts";
import { UserError } from "../../core/base/errors.ts";
import { SITE_NAMES } from "../../core/settings/sites.ts";
import { HOSTILE } from "../core/cluster/script/hostile.ts";
import { ROOT } from "../integration/program.ts";
import { assertSentence } from "../sentences.ts";

const prepare = (line: string | string[], env: Record<string, string> = {}) => {
  const [command, ...argv] = typeof line === "string" ? line.split(" ") : line;
  return prepareJob(argv, command === "qsub" ? "pbs" : "slurm", { env, program: ["./hpctrain"] });
};
const directives = async (line: string) =>
  (await prepare(line)).script.split("\n").filter((text) => /^#(SBATCH|PBS) /.test(text));

async function refusal(line: string | string[]): Promise<string> {
  try {
    await prepare(line);
  } catch (error) {
    if (error instanceof UserError) return error.message;
    throw error;
  }
  throw new Error(`${line} was not refused`);
}

/** Read by people, so kept as files. UPDATE_READY_SCRIPTS=1 writes them anew. */
const READY: Readonly<Record<string, string>> = {
  "single-gpu.sh": "sbatch --preset single-gpu --config run.yaml --time 12:00:00 --mem 64G",
  "multi-gpu.sh": "sbatch --preset multi-gpu --config run.yaml --gpus-per-node 4 --time 12:00:00",
  "multi-node.sh": "sbatch --preset multi-node --config run.yaml --nodes 2 --gpus-per-node 4 --time 04:00:00",
  "cpu-cluster.sh":
    "sbatch --preset cpu-cluster --config run.yaml --nodes 4 --ntasks-per-node 8 --modules openmpi",
  "generate-data.sh":
    "sbatch generate-data --data-type des --samples 100000 --out des --nodes 4 --ntasks-per-node 16",
  "pbs-multi-node.sh":
    "qsub --preset multi-node --config run.yaml --nodes 2 --gpus-per-node 4 --time 04:00:00",
  "pbs-cpu-cluster.sh":
    "qsub --preset cpu-cluster --config run.yaml --nodes 4 --ntasks-per-node 8 --modules openmpi",
  "torque-single-gpu.sh": "qsub --pbs torque --preset single-gpu --config run.yaml --time 12:00:00",
};

/** Each of them, and layouts that no file shows. */
const LINES = [
  ...Object.values(READY),
  "sbatch --preset multi-node --layout task-per-node --config run.yaml",
  "sbatch --model mlp --epochs 3",
  "sbatch --preset cpu-cluster --mpi pmi2 --no-requeue --signal none --env A=1",
  "sbatch doctor --full --nodes 2",
  "qsub --preset multi-node --pbs-launch pbsdsh --config run.yaml",
  "qsub --preset multi-node --layout task-per-node --config run.yaml",
  "qsub --preset multi-node --layout task-per-node --pbs-launch pals --config run.yaml",
  "qsub generate-data --data-type des --samples 10 --out des --no-requeue",
  ...SITE_NAMES.flatMap((site) => [
    `sbatch --site ${site} --nodes 2 --account abc`,
    `sbatch --site ${site} --nodes 2 --preset multi-node --layout task-per-node`,
    `sbatch --site ${site} --nodes 2 --preset cpu-cluster`,
    `sbatch --site ${site} --preset single-gpu`,
  ]),
];

async function inReadyFolder<T>(body: () => T | Promise<T>): Promise<T> {
  const [before, folder] = [Deno.cwd(), Deno.makeTempDirSync()];
  Deno.writeTextFileSync(join(folder, "run.yaml"), "training: { epochs: 10 }\n");
  Deno.chdir(folder);
  try {
    return await body();
  } finally {
    Deno.chdir(before);
    Deno.removeSync(folder, { recursive: true });
  }
}

Deno.test("the scripts in docs/scripts are what their command makes, twice the same", () =>
  inReadyFolder(async () => {
    const folder = join(ROOT, "docs/scripts");
    for (const [name, line] of Object.entries(READY)) {
      const { script } = await prepare(line);
      assertEquals((await prepare(line)).script, script);
      if (Deno.env.get("UPDATE_READY_SCRIPTS")) {
        Deno.writeTextFileSync(join(folder, name), script, { mode: 0o755 });
      }
      assertEquals(
        Deno.readTextFileSync(join(folder, name)),
        script,
        `${name}: UPDATE_READY_SCRIPTS=1 writes it anew`,
      );
    }
    const there = [...Deno.readDirSync(folder)].map(({ name }) => name).filter((name) =>
      name.endsWith(".sh")
    );
    assertEquals(there.sort(), Object.keys(READY).sort());
  }));

const shellcheck = Deno.env.get("HPCTRAIN_SHELLCHECK");
// The wheel that is pinned is for x86-64.
const expected = shellcheck !== undefined || (Deno.env.get("CI") === "true" && Deno.build.arch === "x86_64");
Deno.test({
  name: "shellcheck has nothing to say of any script, also with 200 hostile values in it (needs ShellCheck)",
  ignore: !expected,
  fn: () =>
    inReadyFolder(async () => {
      const scripts = [
        ...await Promise.all(SITE_NAMES.map(async (site) => {
          const { job } = await prepare(`sbatch --site ${site}`);
          return renderSlurm({ ...job, array: { last: 7, atOnce: 2 } });
        })),
        ...await Promise.all(LINES.map(async (line) => (await prepare(line)).script)),
        ...await Promise.all(
          Object.entries({ sbatch: renderSlurm, qsub: renderPbs }).map(async ([command, render]) => {
            const { job } = await prepare([command, "train", "--env", `A=${HOSTILE[7]}`]);
            return render({ ...job, words: ["train", ...HOSTILE] });
          }),
        ),
      ];
      const files = scripts.map((script, i) => {
        Deno.writeTextFileSync(`${i}.sh`, script);
        return `${i}.sh`;
      });
      const { code, stdout, stderr } = await new Deno.Command(shellcheck!, { args: files }).output();
      const text = new TextDecoder().decode(stdout) + new TextDecoder().decode(stderr);
      assertEquals([code, text], [0, ""]);
    }),
});

Deno.test("on a site a node has as many ranks as GPUs, and as one NUMA domain each on CPUs", async () => {
  const size = async (line: string) => {
    const { nodes, ranksPerNode, gpusPerNode, cpusPerRank } = (await prepare(line)).job.layout;
    return [nodes, ranksPerNode, gpusPerNode, cpusPerRank];
  };
  for (
    const [site, gpus, cores] of [["lumi", 8, 7], ["frontier", 8, 7], ["alps", 4, 72], ["leonardo", 4, 8]]
  ) {
    for (const how of ["", " --preset multi-node"]) {
      assertEquals(await size(`sbatch --site ${site} --nodes 2${how}`), [2, gpus, gpus, cores], String(site));
    }
  }
  assertEquals(await size("sbatch --site lumi --nodes 3 --preset cpu-cluster"), [3, 8, 0, 16]);
  assertEquals(await size("sbatch doctor --full --site jupiter"), [1, 4, 4, 72]);
  assertEquals(await size("sbatch pack a b --site lumi"), [1, 8, 0, 16]);
  assertEquals(await size("sbatch --site lumi --gpus-per-node 2 --cpus-per-task 3"), [1, 2, 2, 3]);
});

Deno.test("what came from a site is said, with what was typed instead and what its nodes can't run", async () => {
  const { notes, script } = await prepare(
    "sbatch --site jupiter --partition dev --env NCCL_DEBUG=WARN --srun-arg=--label",
  );
  const said = notes.join("\n");
  assertMatch(said, /^Site jupiter: JUPITER Booster .*\. From it:$/m);
  assertMatch(said, /^ {2}cluster\.gres: gpu:4$/m);
  assertMatch(said, /^ {2}not cluster\.partition: dev \(--partition\)$/m);
  assertEquals(/Its nodes are aarch64, and this executable is for/.test(said), Deno.build.arch !== "aarch64");
  assertStringIncludes(script, "  --cpu-bind=sockets --label \\\n");
  assertStringIncludes(script, "export NCCL_DEBUG=WARN\n");
  assertEquals((await prepare("sbatch --model mlp")).notes, []);
  assertSentence("commands/job_script: site lumi runs", await refusal("qsub --site lumi"));
});

Deno.test("a preset is a job of its size, and flags change it", async () => {
  const size = async (line: string) => {
    const { nodes, ranksPerNode, gpusPerNode, cpusPerRank } = (await prepare(line)).job.layout;
    return [nodes, ranksPerNode, gpusPerNode, cpusPerRank];
  };
  assertEquals(await size("sbatch --preset single-gpu"), [1, 1, 1, 8]);
  assertEquals(await size("sbatch --preset multi-gpu"), [1, 4, 4, 8]);
  assertEquals(await size("sbatch --preset multi-node"), [2, 4, 4, 8]);
  assertEquals(await size("sbatch --preset cpu-cluster"), [2, 4, 0, 4]);
  assertEquals(await size("sbatch --model mlp"), [1, 1, 0, 4]);
  assertEquals(await size("sbatch --device cuda"), [1, 1, 1, 8]);
  assertEquals(await size("sbatch --preset multi-node --nodes 3 --gpus-per-node 8 --cpus-per-task 6"), [
    3,
    8,
    8,
    6,
  ]);
  assertEquals(await size("sbatch --preset multi-node --gres gpu:a100:2"), [2, 2, 2, 8]);
  assertEquals(await size("sbatch --preset single-gpu --num-workers 12"), [1, 1, 1, 12]);
  assertEquals(await size("sbatch --preset cpu-cluster --layout task-per-node --ntasks-per-node 3"), [
    2,
    3,
    0,
    4,
  ]);
  assertEquals(await size("sbatch --preset multi-node --layout task-per-node --ntasks-per-node 1"), [
    2,
    4,
    4,
    8,
  ]);
  assertEquals(await size("sbatch generate-data --samples 5 --nodes 2 --ntasks-per-node 3"), [2, 3, 0, 4]);
});

Deno.test("words about the job stay with the job, and all others go to the command in their order", async () => {
  const { job } = await prepare([
    ...[
      "sbatch",
      "--nodes",
      "2",
      "--preset",
      "multi-node",
      "--set",
      "cluster.qos=high",
      "--set",
      "model.layers=3",
    ],
    ...[
      "--gpus-per-node=a100:4",
      "-t",
      "1:00",
      "--lr=1e-3",
      "--sbatch-arg",
      "--nice=5",
      "--env",
      "A=1",
      "--env",
      "B=2,3",
    ],
  ]);
  assertEquals(job.words, ["train", "--preset", "multi-node", "--set", "model.layers=3", "--lr=1e-3"]);
  assertEquals([job.layout.gpuType, job.layout.gpusPerNode, job.limits.time], ["a100", 4, "1:00"]);
  assertEquals([job.limits.qos, job.limits.more, job.site.env], ["high", ["--nice=5"], ["A=1", "B=2,3"]]);
  const words = ["generate-data", "--samples", "5", "--out", "x", "--preset", "cpu-cluster"];
  for (
    const line of [["sbatch", ...words], ["sbatch", "--kind", ...words], [
      "sbatch",
      "--",
      ...words.slice(0, 5),
    ]]
  ) {
    assertEquals(
      (await prepare(line)).job.words,
      ["generate-data", "--samples", "5", "--out", "x"],
      line.join(" "),
    );
  }
});

Deno.test("a YAML file can say all of it", () =>
  inReadyFolder(async () => {
    Deno.writeTextFileSync(
      "site.yaml",
      `cluster:
  account: abc
  modules: [cuda/12, openmpi]
  env: ["NCCL_DEBUG=WARN,x"]
  setup: ["source ~/site.sh, please"]
  sbatch_args: ["--nice=100"]
distributed: { nodes: 2, gpus_per_node: 4 }
`,
    );
    const { job, script } = await prepare("sbatch --config site.yaml");
    assertEquals(job.words, ["train", "--config", "site.yaml"]);
    assertEquals([job.layout.nodes, job.layout.ranksPerNode], [2, 4]);
    for (
      const line of [
        "--account=abc",
        "--nice=100",
        "module load cuda/12 openmpi",
        "NCCL_DEBUG=WARN,x",
        "source ~/site.sh, please",
      ]
    ) {
      assertStringIncludes(script, line);
    }
  }));

Deno.test("settings in the environment reach the job, and HPCTRAIN_NODES counts for it alone", async () => {
  const { job, script } = await prepare("sbatch --model mlp", {
    ...{
      HPCTRAIN_LR: "1e-2",
      HPCTRAIN_NODES: "3",
      HPCTRAIN_PRESET: "debug",
      WANDB_PROJECT: "p q",
      WANDB_API_KEY: "secret",
    },
    HPCTRAIN_LIBTORCH: "/opt/torch",
  });
  assertEquals(Object.fromEntries(job.inherited), {
    HPCTRAIN_PRESET: "debug",
    HPCTRAIN_LR: "1e-2",
    WANDB_PROJECT: "p q",
    HPCTRAIN_LIBTORCH: "/opt/torch",
  });
  assertEquals(job.layout.nodes, 3);
  assert(!script.includes("secret"));
});

Deno.test("what can't be is refused with what to change", async () => {
  const refused: Record<string, RegExp> = {
    "sbatch --preset multi-gpu --nodes 2":
      /for 2 or more GPUs on 1 node, but this world has 8 GPUs on 2 nodes/,
    "sbatch --preset multi-node --gpus-per-node 4 --gres gpu:2": /ask for different numbers of GPUs/,
    "sbatch --preset multi-node --gres gpu:a100:4 --gpu-type h100": /name different GPUs/,
    "sbatch --preset single-gpu --device cpu": /The job asks for 1 GPU a node, and --device computes on CPUs/,
    "sbatch --preset multi-node --ntasks-per-node 2":
      /Give --gpus-per-node 2, or leave --ntasks-per-node out/,
    "sbatch --preset multi-node --ntasks-per-node 1": /give --layout task-per-node/,
    "sbatch --preset multi-node --env =canary": /takes NAME=VALUE.*got "=\*\*\*"/,
    "sbatch --preset multi-nod": /Did you mean "multi-node"/,
    "sbatch --sumbit": /Unknown flag --sumbit\. Did you mean "--submit"/,
    "sbatch --patition gpu": /Did you mean "--partition"/,
    "sbatch generate": /nothing that a job can be made for\. A job runs train/,
    "sbatch --kind sweeep": /as the first word, sweep; flags alone are train/,
    "sbatch --time tomorrow": /must be a time such as 04:00:00/,
    "sbatch --account two,words;x": /a word without blanks, quotes or #/,
    "sbatch --sbatch-arg nice": /with its dashes/,
    "sbatch --epochs many": /--epochs must be a whole number/,
    "sbatch --submit=yes": /--submit takes no value/,
    "qsub --exclude node3": /is SLURM's/,
  };
  for (const [line, sentence] of Object.entries(refused)) assertMatch(await refusal(line), sentence, line);
  assertMatch(await refusal(["sbatch", "--sbatch-arg", "--comment=a\nb"]), /can't hold a line break/);
});

Deno.test("the same site's file serves both schedulers, each with its own options", async () => {
  const line = "--set cluster.sbatch_args=--nice=1 --set cluster.qsub_args=-W=x";
  assert((await directives(`sbatch ${line}`)).includes("#SBATCH --nice=1"));
  assert((await directives(`qsub ${line}`)).includes("#PBS -W=x"));
});

Deno.test("what the job's command would refuse is refused before the job waits for its turn", async () => {
  const made = "generate-data --data-type des --samples 10 --out des";
  for (
    const [line, says] of [
      [`sbatch ${made} --sample 3`, /Unknown flag --sample\. Did you mean "--samples"/],
      [`sbatch ${made} --seed 3.5`, /--seed/],
      [`sbatch ${made} --maps 3`, /--maps has no effect on data of type des/],
      [`qsub ${made} more`, /takes options only, and got "more"/],
      ["sbatch pack photos packed --resise 256", /Unknown flag --resise\. Did you mean "--resize"/],
      ["sbatch pack photos packed --resize big", /resize must be/],
      ["sbatch bench allreduce --sizez 4KiB", /Unknown flag --sizez\./],
      ["sbatch doctor --ful --nodes 2", /Unknown flag --ful\. /],
    ] as const
  ) assertMatch(await refusal(line), says, line);
  // The job's environment can give what is lacking: sbatch --export=ALL,HPCTRAIN_SAMPLES=10 FILE.
  for (
    const line of [
      "sbatch generate-data --data-type des --out des",
      "sbatch generate-data --threads 4",
      "sbatch pack photos packed --resize 256 --keep-encoded --mem 4G",
      "sbatch bench allreduce --sizes 4KiB,1MiB --nodes 2",
    ]
  ) assertStringIncludes((await prepare(line)).script, line.split(" ")[1]);
});

Deno.test("what a job writes to stderr has a file of its own by one setting, which the presets of clusters have", async () => {
  const slurm = async (line: string) =>
    (await directives(line)).filter((text) => /--(output|error)=/.test(text));
  assertEquals(await slurm("sbatch --model mlp"), ["#SBATCH --output=logs/slurm/%x_%j.out"]);
  assertEquals(await slurm("sbatch --model mlp --err-file"), [
    "#SBATCH --output=logs/slurm/%x_%j.out",
    "#SBATCH --error=logs/slurm/%x_%j.err",
  ]);
  for (const preset of ["single-gpu", "multi-gpu", "multi-node", "cpu-cluster"]) {
    assert(
      (await slurm(`sbatch --preset ${preset}`)).includes("#SBATCH --error=logs/slurm/%x_%j.err"),
      preset,
    );
    assertEquals((await slurm(`sbatch --preset ${preset} --no-err-file`)).length, 1);
  }
  // PBS's script sends them there itself.
  const folder = Deno.makeTempDirSync();
  try {
    for (const [flag, err] of [["--err-file", "oops\n"], ["--no-err-file", null]] as const) {
      const line = (await prepare(`qsub --model mlp ${flag}`)).script.split("\n").find((text) =>
        text.startsWith("exec ")
      )!;
      const output = join(folder, `${flag}.out`);
      const script = `output=${output}\n${line}\necho said; echo oops >&2`;
      await new Deno.Command("bash", { args: ["-c", script] }).output();
      assertEquals(Deno.readTextFileSync(output), err === null ? "said\noops\n" : "said\n");
      if (err !== null) assertEquals(Deno.readTextFileSync(join(folder, `${flag}.err`)), err);
    }
  } finally {
    Deno.removeSync(folder, { recursive: true });
  }
});
