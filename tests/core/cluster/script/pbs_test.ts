// Scripts for PBS Pro, OpenPBS and Torque: what their lines say, and what they do when they run.
import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import type { Pbs, ScriptJob } from "../../../../core/cluster/script/job.ts";
import { renderPbs, walltime } from "../../../../core/cluster/script/pbs.ts";
import { UserError } from "../../../../core/base/errors.ts";
import { inPlace, JOB, type Outcome } from "./helpers.ts";

const directives = (job: ScriptJob) =>
  renderPbs(job).split("\n").filter((line) => line.startsWith("#PBS ")).map((line) => line.slice(5));
const by = (pbs: Partial<Pbs>) => ({ site: { ...JOB.site, pbs: { ...JOB.site.pbs, ...pbs } } });
const stubbed = (
  body: (
    run: (job?: Partial<ScriptJob>, env?: Record<string, string>) => Promise<Outcome>,
    folder: string,
  ) => Promise<void>,
) =>
  inPlace(async ({ stub, run, folder }) => {
    const program = [stub("hpctrain")];
    await body((job, env) => run(renderPbs({ ...JOB, program, ...job }), env), folder);
  });
const LIMITS = {
  ...JOB.limits,
  time: "1-02:30",
  mem: "64G",
  partition: "workq",
  account: "abc",
  exclusive: true,
};

Deno.test("PBS Pro gets select and place", () => {
  const layout = { ...JOB.layout, gpuType: "a100" };
  const site = { ...JOB.site, mail: "me@example.org" };
  const limits = { ...LIMITS, constraint: "system=polaris", more: ["-l filesystems=home"] };
  assertEquals(directives({ ...JOB, limits, layout, site, array: { last: 3 } }), [
    "-N run",
    "-l select=2:ncpus=8:mpiprocs=2:ompthreads=4:ngpus=2:gpu_type=a100:mem=64gb:system=polaris",
    "-l place=scatter:excl",
    "-l walltime=26:30:00",
    "-q workq",
    "-A abc",
    "-J 0-3",
    "-j oe",
    "-o logs/pbs/",
    "-r y",
    "-M me@example.org",
    "-m ae",
    "-l filesystems=home",
  ]);
});

Deno.test("Torque gets nodes and ppn, and the memory of all nodes together", () => {
  const lines = directives({
    ...JOB,
    limits: LIMITS,
    ...by({ dialect: "torque" }),
    name: "a much too long name",
  });
  for (const line of ["-N a-much-too-long", "-l nodes=2:ppn=8:gpus=2", "-l mem=128gb", "-n"]) {
    assert(lines.includes(line), `${line} is not among\n${lines.join("\n")}`);
  }
  assert(!lines.some((line) => /select|place/.test(line)));
});

Deno.test("days become hours, and what has none stays", () => {
  const all = ["2-04", "2-04:30", "1-00:00:05", "04:00:00", "3600"].map(walltime);
  assertEquals(all, ["52:00:00", "52:30:00", "24:00:05", "04:00:00", "3600"]);
});

Deno.test("what PBS does not have is refused with what it has instead", () => {
  const refused = (limits: Partial<ScriptJob["limits"]>) => {
    try {
      renderPbs({ ...JOB, limits: { ...JOB.limits, ...limits } });
    } catch (error) {
      return (error as UserError).message;
    }
    return "";
  };
  assertMatch(refused({ exclude: "n1" }), /^cluster\.exclude \(--exclude\) is SLURM's\. PBS has no list/);
  assertMatch(refused({ reservation: "R1" }), /In PBS a reservation is a queue/);
  assertMatch(refused({ qos: "high" }), /PBS Pro has no such thing/);
});

Deno.test("mpiexec gets each node once for each of its ranks, and the ranks get the job's environment", () =>
  stubbed(async (run, folder) => {
    Deno.writeTextFileSync(
      `${folder}/bin/mpiexec`,
      '#!/bin/sh\ncp "$2" "$CALLS.hosts"; printf "%s\\n" "$*" >>"$CALLS"\nshift 4; exec "$@"\n',
    );
    const site = { ...JOB.site, env: ["NCCL_DEBUG=WARN"] };
    const { words, env, calls } = await run({ site }, { EPOCHS: "7" });
    assertEquals(words, ["train", "--epochs=7"]);
    assertEquals([env.NCCL_DEBUG, env.PBS_JOBID], ["WARN", "42.server"]);
    assertMatch(calls.at(-1)!, /-n 4 env PATH=/);
    assertEquals(Deno.readTextFileSync(`${folder}/calls.hosts`), "node1\nnode1\nnode2\nnode2\n");
    const part = await run({}, { NODES: "1", GPUS: "1", HPCTRAIN_SEED: "7" });
    assertEquals(Deno.readTextFileSync(`${folder}/calls.hosts`), "node1\n");
    assertEquals(part.env.HPCTRAIN_SEED, "7"); // for ranks on other nodes, which have what they are told alone
  }));

Deno.test("PALS is told how many ranks a node gets", () =>
  stubbed(async (run) => {
    const { calls, words } = await run(by({ launch: "pals" }));
    assertMatch(calls.at(-1)!, /^-n 4 --ppn 2 --hostfile \S+nodes env /);
    assertEquals(words, ["train"]);
  }));

Deno.test("one task a node knows its number from MPI's launcher, and where the first node is", () =>
  stubbed(async (run) => {
    const layout = { ...JOB.layout, tasks: "per-node" } as const;
    for (const variable of ["OMPI_COMM_WORLD_RANK", "PMI_RANK", "PALS_RANKID"]) {
      const { words, env } = await run({ layout }, { [variable]: "1" });
      assertEquals(words, [
        "launch",
        "-n",
        "2",
        "--nodes",
        "2",
        "--rendezvous",
        "node1:20042",
        "--",
        "train",
      ]);
      assertEquals(env.NODE_RANK, "1");
    }
  }));

Deno.test("pbsdsh starts one task on each node, by its place in the list of nodes", () =>
  stubbed(async (run, folder) => {
    const { calls, code } = await run(by({ launch: "pbsdsh" }));
    assertEquals(code, 0);
    const starts = calls.filter((call) => call.startsWith("-n ")).sort();
    assertEquals(starts.map((call) => /^-n (\d) -- \S+\/env -C (\S+) /.exec(call)!.slice(1)), [
      ["0", folder],
      ["2", folder],
    ]);
    assertStringIncludes(starts[1], "launch -n 2 --nodes 2 --node-rank 1 --rendezvous node1:20042 -- train");
    assertEquals((await run(by({ launch: "pbsdsh" }), { STUB_CODE: "3" })).code, 3);
  }));

Deno.test("pbsdsh starts ranks on CPUs too, which need no MPI", () => {
  const layout = { ...JOB.layout, gpusPerNode: 0, mpi: true };
  assertMatch(renderPbs({ ...JOB, ...by({ launch: "pbsdsh" }), layout }), /pbsdsh -n [^]*launch -n /);
});

Deno.test("what a job prints is in its file while it runs, and a job that PBS starts again goes on", () =>
  stubbed(async (run, folder) => {
    Deno.writeTextFileSync(`${folder}/bin/hello`, "#!/bin/sh\necho hello\n", { mode: 0o755 });
    const setup = { ...JOB.site, setup: ["hello"] };
    const first = await run({ site: setup });
    assertEquals([first.said, first.words], ["", ["train"]]);
    const second = await run({ site: setup });
    assertEquals(second.words, ["train", "--resume=auto"]);
    assertMatch(Deno.readTextFileSync(`${folder}/logs/pbs/run.42.server.out`), /^hello\nhello\n/);
  }));

Deno.test("code 75 submits the next job, which goes on, with what was changed for this one", () =>
  stubbed(async (run, folder) => {
    const submitted = ({ calls }: Outcome) => calls.filter((call) => call.startsWith("qsub"));
    const stopped = await run({}, { STUB_CODE: "75", EPOCHS: "7" });
    assertEquals(stopped.code, 75);
    assertMatch(submitted(stopped)[0], /^qsub -v HPCTRAIN_RESTARTS=1,EPOCHS \S+\/job\.sh$/);
    const byHand = await run({}, { STUB_CODE: "75", STUB_ENDED: "Stopped on request (the file STOP)" });
    assertEquals([byHand.code, submitted(byHand)], [75, []]);
    const next = await run({}, { STUB_CODE: "75", HPCTRAIN_RESTARTS: "1", PBS_JOBID: "43.server" });
    assertEquals(next.words, ["train", "--resume=auto"]);
    assertMatch(submitted(next)[0], /HPCTRAIN_RESTARTS=2 /);
    const others: Record<string, string>[] = [
      { STUB_CODE: "75", HPCTRAIN_RESTARTS: "3" },
      { STUB_CODE: "5" },
      {},
    ];
    for (const env of others) {
      assertEquals(submitted(await run({}, { ...env, PBS_JOBID: "44.server" })), []);
    }
    assertEquals(submitted(await run({ array: { last: 3 } }, { STUB_CODE: "75", PBS_JOBID: "45[1]" })), []);
    Deno.writeTextFileSync(`${folder}/bin/qsub`, "#!/bin/sh\nexit 1\n");
    assertEquals((await run({}, { STUB_CODE: "75", PBS_JOBID: "46.server" })).code, 75);
    assertStringIncludes(
      Deno.readTextFileSync(`${folder}/logs/pbs/run.46.server.out`),
      "By hand: qsub -v RESUME=auto",
    );
  }));

Deno.test("an array of PBS Pro can always run again, as it is refused otherwise", () => {
  const ending = { ...JOB.ending, requeue: false };
  const again = (dialect: "pro" | "torque", array?: { last: number }) =>
    directives({ ...JOB, ending, array, site: { ...JOB.site, pbs: { ...JOB.site.pbs, dialect } } })
      .filter((line) => line.startsWith("-r "));
  assertEquals([again("pro", { last: 3 }), again("pro"), again("torque", { last: 3 })], [["-r y"], ["-r n"], [
    "-r n",
  ]]);
});

Deno.test("on a node of another architecture the script ends before a rank starts", () =>
  stubbed(async (run, folder) => {
    const setup = ["uname() { echo riscv64; }"];
    const { code, words } = await run({ site: { ...JOB.site, setup } });
    assertEquals([code, words], [7, []]);
    const logs = `${folder}/logs/pbs`;
    const said = [...Deno.readDirSync(logs)].map(({ name }) => Deno.readTextFileSync(`${logs}/${name}`)).join(
      "",
    );
    assertMatch(
      said,
      /^This node is riscv64, and the executable of this job is for \w+\. Put the one for riscv64 beside it, as /m,
    );
  }));

Deno.test("variables by their names alone come with the job and with the one after it, and ps shows none of them", () =>
  stubbed(async (run) => {
    const site = { ...JOB.site, passed: ["OWN_KEY"] };
    const listed = (...more: string[]) =>
      directives({ ...JOB, site, limits: { ...JOB.limits, more } }).at(-1);
    assertEquals([listed(), listed("-v A=1,B")], ["-v OWN_KEY", "-v A=1,B,OWN_KEY"]);
    for (const launch of ["mpiexec", "pals", "pbsdsh"] as const) {
      const own = { ...site, pbs: { ...site.pbs, launch } };
      const there = await run({ site: own }, { OWN_KEY: "canary", STUB_CODE: "75" });
      assertEquals([there.code, there.env.OWN_KEY], [75, "canary"]);
      assertEquals(there.calls.filter((call) => call.includes("canary")), []);
      assertMatch(there.calls.at(-1)!, /^qsub -v HPCTRAIN_RESTARTS=1,OWN_KEY /);
    }
    assertEquals((await run({ site })).code, 2);
  }));
