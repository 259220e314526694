// Scripts for SLURM: what their lines say, and what they do when they run.
import { assert, assertEquals, assertMatch, assertStringIncludes, assertThrows } from "@std/assert";
import { UserError } from "../../../../core/base/errors.ts";
import { srunOption } from "../../../../core/cluster/script/body.ts";
import type { ScriptJob } from "../../../../core/cluster/script/job.ts";
import { renderSlurm } from "../../../../core/cluster/script/slurm.ts";
import { inPlace, JOB, type Outcome } from "./helpers.ts";
import { assertSentence, sentenceNamed } from "../../../sentences.ts";

const directives = (job: ScriptJob) =>
  renderSlurm(job).split("\n").filter((line) => line.startsWith("#SBATCH ")).map((line) => line.slice(8));
const stubbed = (
  body: (
    run: (job: Partial<ScriptJob>, env?: Record<string, string>, args?: string[]) => Promise<Outcome>,
    folder: string,
  ) => Promise<void>,
) =>
  inPlace(async ({ stub, run, folder }) => {
    const program = [stub("hpctrain")];
    await body((job, env, args) => run(renderSlurm({ ...JOB, program, ...job }), env, args), folder);
  });

Deno.test("the directives say all that was asked for, and nothing else", () => {
  assertEquals(directives(JOB), [
    "--job-name=run",
    "--nodes=2",
    "--ntasks-per-node=2",
    "--gpus-per-node=2",
    "--cpus-per-task=4",
    "--output=logs/slurm/%x_%j.out",
    "--open-mode=append",
    "--signal=USR1@120",
    "--requeue",
  ]);
  const limits = {
    ...{ time: "04:00:00", mem: "64G", partition: "gpu", account: "abc", qos: "high" },
    ...{ constraint: "a100&ib", exclude: "node[3-4]", reservation: "course", exclusive: true },
    more: ["--nice=100", "--comment=two words # here"],
  };
  const site = { ...JOB.site, mail: "me@example.org" };
  const ending = { ...JOB.ending, signal: "none", requeue: false };
  const layout = { ...JOB.layout, gpuType: "h100" };
  const all = directives({ ...JOB, limits, site, ending, layout, array: { last: 11, atOnce: 4 } });
  for (
    const line of [
      ...[
        "--gpus-per-node=h100:2",
        "--mem=64G",
        "--time=04:00:00",
        "--partition=gpu",
        "--account=abc",
        "--qos=high",
      ],
      ...[
        "--constraint=a100&ib",
        "--exclude=node[3-4]",
        "--reservation=course",
        "--exclusive",
        "--array=0-11%4",
      ],
      ...["--output=logs/slurm/%x_%A_%a.out", "--mail-user=me@example.org", "--mail-type=END,FAIL"],
      ...["--no-requeue", "--nice=100", '--comment="two words # here"'],
    ]
  ) assert(all.includes(line), `${line} is not among\n${all.join("\n")}`);
  assert(!all.some((line) => line.startsWith("--signal")));
});

Deno.test("GPUs are asked for as gres where the site wants that, and by nothing where there are none", () => {
  const gres = directives({ ...JOB, layout: { ...JOB.layout, gres: "gpu:a100:2" } });
  assert(gres.includes("--gres=gpu:a100:2"));
  const none = directives({ ...JOB, layout: { ...JOB.layout, gpusPerNode: 0 } });
  for (const lines of [gres, none]) assert(!lines.some((line) => line.startsWith("--gpus-per-node")));
});

Deno.test("a script's directives come before its first command, where sbatch stops reading", () => {
  const lines = renderSlurm(JOB).split("\n");
  const first = lines.findIndex((line) => line !== "" && !line.startsWith("#"));
  assertEquals(lines.slice(first).some((line) => line.startsWith("#SBATCH")), false);
});

Deno.test("the same job gives the same script, whose head names generator, version and command", () => {
  const made = {
    ...JOB.made,
    version: "1.2.3",
    command: ["hpctrain", "sbatch", "--epochs", "3", "two words"],
  };
  assertEquals(renderSlurm({ ...JOB, made }), renderSlurm(structuredClone({ ...JOB, made })));
  assertSentence("core/cluster/script/slurm: made hpctrain hpctrain", renderSlurm({ ...JOB, made }));
});

Deno.test("the job's environment counts more than typed flags, and the words after the script's name count most", () =>
  stubbed(async (run) => {
    const words = ["train", "--epochs", "3"];
    const last = (words: string[]) => words.findLast((word) => word.startsWith("--epochs="));
    const calm = await run({ words });
    assertEquals([calm.words, calm.said], [words, ""]);
    const changed = await run({ words }, { EPOCHS: "7" });
    assertEquals(changed.words, [...words, "--epochs=7"]);
    assertEquals(changed.said, "Changed for this job: --epochs=7\n");
    assertEquals((await run({ words }, { EPOCHS: "" })).words, words);
    assertEquals(
      last((await run({ words }, { EPOCHS: "7", LR: "1e-3" }, ["--epochs=9"])).words),
      "--epochs=9",
    );
  }));

Deno.test("what was in the environment when the script was made is there again, unless the job has its own", () =>
  stubbed(async (run) => {
    const inherited = [["WANDB_PROJECT", "a b"]] as const;
    assertEquals((await run({ inherited })).env.WANDB_PROJECT, "a b");
    assertEquals((await run({ inherited }, { WANDB_PROJECT: "c" })).env.WANDB_PROJECT, "c");
  }));

Deno.test("srun starts a task for each GPU of the allocation as it is, and NODES and GPUS take fewer", () =>
  stubbed(async (run) => {
    const sizes = async (env: Record<string, string>) =>
      /--nodes=(\d+) --ntasks=(\d+) --ntasks-per-node=(\d+)/.exec((await run({}, env)).calls.at(-1)!)!.slice(
        1,
      ).map(Number);
    assertEquals(await sizes({}), [2, 4, 2]);
    assertEquals(await sizes({ SLURM_JOB_NUM_NODES: "3", SLURM_GPUS_ON_NODE: "4" }), [3, 12, 4]);
    assertEquals(await sizes({ SLURM_GPUS_ON_NODE: "4", NODES: "1", GPUS: "2" }), [1, 2, 2]);
  }));

Deno.test("ranks of more GPUs than the script's own tasks share the cores that there are", () =>
  stubbed(async (run) => {
    const eight = { SLURM_GPUS_ON_NODE: "8", SLURM_CPUS_PER_TASK: "4" };
    const step = async (cores: string) => {
      const { calls, said, code } = await run({}, { ...eight, SLURM_CPUS_ON_NODE: cores });
      return { code, said, cpus: /--ntasks-per-node=8 --cpus-per-task=(\d+)/.exec(calls.at(-1) ?? "")?.[1] };
    };
    assertEquals(await step("32"), { code: 0, said: "", cpus: "4" });
    const two = await step("16");
    assertEquals(two.cpus, "2");
    assertSentence("core/cluster/script/slurm: ranks share cores", two.said);
    const none = await step("4");
    assertEquals([none.code, none.cpus], [2, undefined]);
    assertSentence("core/cluster/script/slurm: job cores sbatch", none.said);
  }));

Deno.test("more nodes or GPUs than the job has, or none at all, end it at once, with the line that submits one that has them", () =>
  stubbed(async (run) => {
    const FOUR = { SLURM_GPUS_ON_NODE: "4" };
    const cases: [Record<string, string>, RegExp, Partial<ScriptJob>?][] = [
      [
        { GPUS: "8" },
        /GPUS=8, and this job has 4 GPUs on each node\..* sbatch --gpus-per-node=8 --ntasks-per-node=8 FILE\n/,
      ],
      [{ GPUS: "8" }, /sbatch --gres=gpu:a100:8 --ntasks-per-node=8 FILE/, {
        layout: { ...JOB.layout, gres: "gpu:a100:4" },
      }],
      [{ GPUS: "8" }, /sbatch --gpus-per-node=8 FILE/, { layout: { ...JOB.layout, tasks: "per-node" } }],
      [{ NODES: "3" }, /NODES=3, and this job has 2 nodes\..* sbatch --nodes=3 FILE\n/],
      [{ GPUS: "two" }, /GPUS=two is no number of GPUs/],
      [{ NODES: "0" }, /NODES=0 is no number of nodes/],
      [{ GPUS: "1" }, /GPUS=1, and this job has none/, { layout: { ...JOB.layout, gpusPerNode: 0 } }],
      [{ GPUS: "1" }, /GPUS=1, and this job has none/, {
        overrides: [],
        layout: { ...JOB.layout, gpusPerNode: 0 },
      }],
    ];
    for (const [env, says, job = {}] of cases) {
      const { code, said, words } = await run(job, { ...FOUR, ...env });
      assertEquals([code, words], [2, []], said);
      assertMatch(said, says);
    }
    const part = await run({}, { ...FOUR, GPUS: "2" });
    assertEquals([part.code, part.said], [0, sentenceNamed("core/cluster/script/slurm: gpus job gpus")]);
    assertMatch(part.calls.at(-1)!, /--ntasks=4 --ntasks-per-node=2/);
  }));

Deno.test("sbatch's own options behind the file end the job at once, with the line to submit it by", () =>
  stubbed(async (run) => {
    const cases: [string[], string][] = [
      [["--nodes", "4"], "Submit it so: sbatch --nodes 4 FILE\n"],
      [["--requeue", "--epochs=2"], "Submit it so: sbatch --requeue FILE\n"],
      [["-N", "4"], "Submit it so: sbatch -N 4 FILE\n"],
    ];
    for (const [args, says] of cases) {
      const { code, said, words } = await run({}, {}, args);
      assertEquals([code, words], [2, []], said);
      assertStringIncludes(said, says);
    }
    assertEquals((await run({}, {}, ["--lr", "-1", "--no-compile"])).words, [
      "train",
      "--lr",
      "-1",
      "--no-compile",
    ]);
    const none = await run({ words: ["eval", "a.pt"], overrides: [] }, {}, ["--json"]);
    assertEquals([none.code, none.words], [2, []]);
    assertSentence("core/cluster/script/slurm: job takes words", none.said);
  }));

Deno.test("--export behind the file sets its variables in the job, which says so without their values", () =>
  stubbed(async (run) => {
    const job = { words: ["train"], overrides: [["EPOCHS", "epochs"], ["LR", "lr"]] } as const;
    const cases = [
      [["--export=ALL,EPOCHS=3"], "sets EPOCHS by it", ["--epochs=3"]],
      [["--warmup=1ep", "--export", "EPOCHS=3,LR=1"], "sets EPOCHS LR by it", [
        "--epochs=3",
        "--lr=1",
        "--warmup=1ep",
      ]],
      [["--export=ALL"], "sets nothing by it", []],
      [["--export=ALL,MY_API_KEY=abc"], "sets MY_API_KEY by it", []],
    ] as const;
    for (const [args, says, words] of cases) {
      const ran = await run(job, {}, [...args]);
      assertEquals([ran.code, ran.words], [0, ["train", ...words]], ran.said);
      assertEquals(ran.said.split("\n").filter((line) => line.includes("after the file")).length, 1);
      assertStringIncludes(ran.said, says);
      assertEquals(ran.said.includes("abc"), false);
    }
  }));

Deno.test("a variable that gave way to a flag when the script was made does so in the job; another value counts", () =>
  stubbed(async (run) => {
    const job = { words: ["train", "--epochs=3"], gaveWay: [["EPOCHS", "5"]] } as const;
    assertEquals((await run(job, { EPOCHS: "5" })).words, ["train", "--epochs=3"]);
    assertEquals((await run(job, { EPOCHS: "7" })).words, ["train", "--epochs=3", "--epochs=7"]);
    const data = { words: ["generate-data"], useless: ["LR"] };
    const refused = await run(data, { LR: "1" });
    assertEquals([refused.code, refused.words], [2, []]);
    assertStringIncludes(refused.said, "LR=1 means nothing to generate-data: unset it.");
  }));

Deno.test("srun hands everything on, says the cores of a task, and ends all when one fails", () =>
  stubbed(async (run) => {
    const call = (await run({})).calls.at(-1)!;
    assertStringIncludes(call, "--export=ALL");
    assertStringIncludes(call, "--cpus-per-task=4 --kill-on-bad-exit=1");
    assertMatch((await run({})).env.HPCTRAIN_SECRET, /^[0-9a-f]{64}$/);
  }));

Deno.test("the job ends with srun's code; code 75 puts it back in the queue, as often as was said", () =>
  stubbed(async (run, folder) => {
    const requeued = ({ calls }: Outcome) => calls.filter((call) => call.startsWith("scontrol requeue"));
    const failed = await run({}, { STUB_CODE: "3" });
    assertEquals([failed.code, requeued(failed)], [3, []]);
    const stopped = await run({}, { STUB_CODE: "75" });
    assertEquals([stopped.code, requeued(stopped)], [75, ["scontrol requeue 7"]]);
    assertSentence("core/cluster/script/slurm: going back queue", stopped.said);
    const often = await run({}, { STUB_CODE: "75", SLURM_RESTART_COUNT: "3" });
    assertEquals(requeued(often), []);
    const never = await run({ ending: { ...JOB.ending, requeue: false } }, { STUB_CODE: "75" });
    assertEquals([never.code, requeued(never)], [75, []]);
    const env = { STUB_CODE: "75", SLURM_ARRAY_JOB_ID: "5", SLURM_ARRAY_TASK_ID: "2" };
    assertEquals(requeued(await run({ array: { last: 3 } }, env)), ["scontrol requeue 5_2"]);
    const byHand = await run({}, { STUB_CODE: "75", STUB_ENDED: "Stopped on request (the file STOP)" });
    assertEquals([byHand.code, requeued(byHand)], [75, []]);
    assertSentence("core/cluster/script/slurm: going back queue stopped", byHand.said);
    Deno.writeTextFileSync(`${folder}/bin/scontrol`, "#!/bin/sh\nexit 1\n");
    const alone = await run({}, { STUB_CODE: "75" });
    assertEquals(alone.code, 75);
    assertStringIncludes(alone.said, "By hand: sbatch FILE --resume auto");
  }));

Deno.test("one task a node starts the node's ranks by launch, which meet at the first node on a port of the job's own", () =>
  stubbed(async (run) => {
    const layout = { ...JOB.layout, tasks: "per-node" } as const;
    const { words, calls, env } = await run({ layout }, { GPUS: "1" });
    assertEquals(words, ["launch", "-n", "1", "--nodes", "2", "--", "train"]);
    assertStringIncludes(calls.at(-1)!, "--nodes=2 --ntasks=2 --ntasks-per-node=1");
    assertEquals([env.MASTER_ADDR, env.MASTER_PORT], ["node1", "20007"]);
    assert(directives({ ...JOB, layout }).includes("--cpus-per-task=8"));
  }));

Deno.test("ranks on CPUs are started as their MPI needs it, where the site has not said how", async () => {
  await inPlace(async ({ folder, stub, run }) => {
    const job = { ...JOB, program: [stub("hpctrain")], layout: { ...JOB.layout, gpusPerNode: 0, mpi: true } };
    const config = (text: string) =>
      Deno.writeTextFileSync(
        `${folder}/bin/scontrol`,
        `#!/bin/sh\necho 'MpiDefault              = ${text}'\n`,
      );
    const type = async (job: ScriptJob, env = {}) => (await run(renderSlurm(job), env)).env.SLURM_MPI_TYPE;
    config("none");
    assertEquals(await type(job), "pmi2");
    assertEquals(await type(job, { SLURM_MPI_TYPE: "cray_shasta" }), "cray_shasta");
    assertEquals(await type(JOB.layout.mpi ? job : { ...job, layout: JOB.layout }), undefined);
    stub("bin/ompi_info");
    assertEquals(await type(job), "pmix");
    config("pmix_v4");
    assertEquals(await type(job), undefined);
    const { calls } = await run(renderSlurm({ ...job, site: { ...job.site, mpi: "pmix_v3" } }));
    assertStringIncludes(calls.at(-1)!, "--mpi=pmix_v3");
  });
});

Deno.test("srun gets options of the site's or one's own, and no word that would be its program", () =>
  stubbed(async (run) => {
    const srun = ["--cpu-bind=mask_cpu:0xfe,0xfe00", "--comment=two words"];
    const { calls } = await run({ site: { ...JOB.site, srun } });
    assertStringIncludes(calls.at(-1)!, "--cpu-bind=mask_cpu:0xfe,0xfe00 --comment=two words ");
    assertThrows(() => srunOption("hostname"), UserError, "--srun-arg=--cpu-bind=cores");
  }));

Deno.test("modules are loaded, and variables and lines of the site's come before the ranks", async () => {
  await inPlace(async ({ folder, stub, run }) => {
    const site = {
      ...JOB.site,
      modules: ["gcc/12", "openmpi"],
      env: ["NCCL_DEBUG=WARN"],
      setup: ["FROM_SETUP=$UNSET_VARIABLE-yes; export FROM_SETUP", "false"],
    };
    const script = renderSlurm({ ...JOB, program: [stub("hpctrain")], site });
    assert(script.startsWith("#!/bin/bash -l\n"));
    const { env, code } = await run(script);
    assertEquals([code, env.NCCL_DEBUG, env.FROM_SETUP], [0, "WARN", "-yes"]);
    assertEquals(Deno.readTextFileSync(`${folder}/modules`), "load\0gcc/12\0openmpi\0");
    Deno.writeTextFileSync(`${folder}/bin/module`, "#!/bin/sh\nexit 1\n");
    const without = await run(script);
    assertEquals([without.code, without.words], [7, []]);
  });
});

Deno.test("an array's words can name its task", () =>
  stubbed(async (run) => {
    const words = ["sweep", "run", "a b.json", { shell: '"$SLURM_ARRAY_TASK_ID"' }];
    const job = { words, overrides: [], array: { last: 3 } };
    assertEquals((await run(job, { SLURM_ARRAY_TASK_ID: "2" })).words, ["sweep", "run", "a b.json", "2"]);
  }));

Deno.test("a limit of the address space is raised as far as it may be, and where that is too little a sentence says so", () =>
  stubbed(async (run) => {
    const after = (setup: string) => run({ site: { ...JOB.site, setup: [setup] } });
    const raised = await after("ulimit -S -v 16777216");
    assertEquals([raised.code, raised.words.length > 0], [0, true], raised.said);
    const { code, said, words } = await after("ulimit -v 16777216");
    assertEquals([code, words], [7, []]);
    assertMatch(
      said,
      /^The address space is limited to 16777216 KiB \(ulimit -v\), and hpctrain needs 33 GiB .*\.$/m,
    );
  }));

Deno.test("on a node of another architecture a job runs the executable that lies beside, or ends before srun with a sentence", () =>
  inPlace(async ({ stub, run, folder }) => {
    const program = [stub("hpctrain")];
    for (const [node, own] of [["aarch64", "x86_64"], ["x86_64", "aarch64"]]) {
      const made = { ...JOB.made, architecture: own };
      const on = (name: string) =>
        run(
          renderSlurm({ ...JOB, program, made, site: { ...JOB.site, setup: [`uname() { echo ${name}; }`] } }),
        );
      const other = await on(node);
      assertEquals([other.code, other.words], [7, []]);
      const sentence = sentenceNamed("core/cluster/script/slurm: node executable job", { node, own });
      assertStringIncludes(
        other.said,
        `${sentence} as ${folder}/hpctrain-${node}, or ask for nodes that are ${own} `,
      );
      const same = await on(own);
      assertEquals([same.code, same.words.length > 0], [0, true], same.said);
      const beside = stub(`hpctrain-${node}`);
      Deno.removeSync(program[0]);
      const found = await on(node);
      assertEquals([found.code, found.words.length > 0], [0, true], found.said);
      assertStringIncludes(found.said, `This node is ${node}: the job runs ${beside}.`);
      stub("hpctrain");
    }
  }));

Deno.test("variables by their names alone come with the job, beside what another --export says, and where they do not the job says so", () =>
  stubbed(async (run) => {
    const site = { ...JOB.site, passed: ["OWN_KEY", "OTHER"] };
    const exported = (...more: string[]) =>
      directives({ ...JOB, site, limits: { ...JOB.limits, more } }).filter((line) =>
        line.startsWith("--export")
      ).at(-1);
    assertEquals(exported(), "--export=ALL,OWN_KEY,OTHER");
    assertEquals(exported("--export=NONE"), "--export=OWN_KEY,OTHER");
    assertEquals(exported("--export A=1", "--nice=5"), "--export=A=1,OWN_KEY,OTHER");
    assertEquals(directives(JOB).filter((line) => line.startsWith("--export")), []);
    const there = await run({ site }, { OWN_KEY: "a b", OTHER: "" });
    assertEquals([there.code, there.env.OWN_KEY], [0, "a b"]);
    const lost = await run({ site }, { OTHER: "x" });
    assertEquals([lost.code, lost.words], [2, []]);
    assertSentence("core/cluster/script/slurm: own_key come job", lost.said);
  }));
