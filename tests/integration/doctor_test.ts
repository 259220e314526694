// `hpctrain doctor` on machines that are well and machines that are not, made of real parts: small disks, cpusets, network
// namespaces, nodes that are host names of their own, and a node that is stopped most of the time.
import { assert, assertEquals, assertMatch } from "@std/assert";
import { join } from "paths";
import { fakeTorch } from "../ffi/libraries/fake_libtorch.ts";
import { mpich, openMpi } from "../mpi.ts";
import { NODE, nodesPossible, onCutLink, throttled } from "./doctor_machines.ts";
import { launch } from "./launches.ts";
import {
  bareMachine,
  filesIn,
  finish,
  inTemp,
  onDisk,
  type Options,
  type Result,
  ROOT_USER,
  run,
  start,
} from "./program.ts";
import { withoutMpi } from "./without_mpi.ts";
import { within } from "../cpu_time.ts";
import { sentenceNamed } from "../sentences.ts";

const doctor = (args: string[], options: Options = {}): Promise<Result> => run(["doctor", ...args], options);

/** The lines of a state, without it. */
const lines = ({ stdout }: Result, state: "good" | "warn" | "bad"): string[] =>
  stdout.split("\n").filter((line) => line.startsWith(`  ${state} `)).map((line) => line.slice(8));

/** One line that says what is wrong and what to do, and the exit code that follows from it. */
function assertNamed(result: Result, state: "warn" | "bad", sentence: RegExp): void {
  const found = lines(result, state).filter((line) => sentence.test(line));
  assertEquals(found.length, 1, result.stdout + result.stderr);
  if (state === "bad") assertMatch(result.stdout, /\nVerdict: training here would fail, for this: /);
  else assertMatch(result.stdout, /\nVerdict: training (works here, with \d+ warnings?|here would fail)/);
  assertEquals(result.code === 1, lines(result, "bad").length > 0);
}

Deno.test("on a good machine nothing is bad, each check has a line, and nothing is left behind", () =>
  inTemp(async (cwd) => {
    const result = await doctor([], { cwd });
    assertEquals([result.code, lines(result, "bad"), result.stderr], [0, [], ""]);
    const names = new Set(
      ["good", "warn"].flatMap((state) => lines(result, state as "good"))
        .map((line) => line.split(" ")[0]),
    );
    for (
      const name
        of "libtorch glibc GPU MPI scheduler allocation cores NUMA memory network storage limits clock"
          .split(" ")
    ) {
      assert(names.has(name), `${name}: ${result.stdout}`);
    }
    assertMatch(result.stdout, /\nVerdict: (good\. Training works here\.|training works here, with )/);
    assertEquals(filesIn(cwd), []);
  }));

Deno.test("--json has the same lines, the verdict, and the facts behind them", () =>
  inTemp(async (cwd) => {
    const { code, stdout } = await doctor(["--json"], { cwd });
    const told = JSON.parse(stdout);
    assertEquals([code, told.good, told.facts.libtorch.broken], [0, true, null]);
    assert(told.lines.every((line: { state: string; fix: string | null }) =>
      (line.state === "good") === (line.fix === null)
    ));
  }));

Deno.test("--quiet prints what is wrong and the verdict", () =>
  inTemp(async (cwd) => {
    const { code, stdout } = await doctor(["--quiet", "--data-path", "missing"], { cwd });
    const printed = stdout.trimEnd().split("\n").filter((line) => line !== "");
    assertEquals([code, printed.at(-1)], [1, sentenceNamed("integration/doctor: verdict training would")]);
    assert(printed.slice(0, -1).every((line) => /^ {2}(warn|bad ) {2}/.test(line)), stdout);
  }));

Deno.test("without libtorch, Python, MPI or any program on PATH it says how to get one, with code 1", () =>
  inTemp(async (home) => {
    const result = await doctor([], { cwd: home, env: bareMachine(home) });
    assertNamed(result, "bad", /^libtorch +none was found on this machine\. .*hpctrain libtorch install/);
    assertMatch(result.stdout, /for this: libtorch\.\n/);
  }));

Deno.test("a libtorch that is too old is named with its version and what to do", () =>
  inTemp(async (home) => {
    const dir = fakeTorch(home, "2.4.1");
    const result = await doctor(["--libtorch", dir], { cwd: home, env: bareMachine(home) });
    assertNamed(
      result,
      "bad",
      /^libtorch .*too old: version 2\.4\.1 .*, and 2\.10 or newer is needed.*libtorch install/,
    );
  }));

Deno.test({
  name: "a folder on a read-only file system is named, and --save-dir is what to change (needs root)",
  ignore: !ROOT_USER,
  fn: () =>
    onDisk(8, async (disk) => {
      const mount = (how: string) =>
        new Deno.Command("mount", { args: ["-o", `remount,${how}`, disk] }).outputSync();
      assert(mount("ro").success);
      const result = await doctor(["--save-dir", disk]);
      mount("rw");
      assertNamed(
        result,
        "bad",
        /^storage +checkpoints and logs in \S+ can't be written: the file system is read-only\. .*--save-dir/,
      );
    }),
});

Deno.test({
  name: "a disk that is 90% full is named with the share and what is left (needs root)",
  ignore: !ROOT_USER,
  fn: () =>
    onDisk(400, async (disk) => {
      Deno.writeFileSync(join(disk, "taken"), new Uint8Array(364 * 2 ** 20));
      const result = await doctor(["--save-dir", disk]);
      assertNamed(
        result,
        "warn",
        /^storage +checkpoints and logs in \S+: the disk is 91% full, with 36\.0 MiB free\. .*--save-dir/,
      );
      assertEquals(filesIn(disk), ["taken"]);
    }),
});

Deno.test("one core with 8 workers asked is named, with what to ask the scheduler for", async () => {
  const result = await doctor(["--num-workers", "8"], { through: ["taskset", "-c", "0"] });
  assertNamed(
    result,
    "warn",
    /^cores +1 core of \d+ \(cpuset 0\) may be used, and 8 threads.*--cpus-per-task/,
  );
});

Deno.test("data that is not there and a library that can't be MPI are told", () =>
  inTemp(async (cwd) => {
    const env = { HPCTRAIN_MPI: "/no/such/libmpi.so.40" };
    const result = await doctor(["--data-path", "missing"], { cwd, env });
    assertNamed(result, "bad", /^storage +data in missing can't be read/);
    assertNamed(result, "warn", /^MPI .*HPCTRAIN_MPI can't be used.*HPCTRAIN_MPI/);
  }));

Deno.test("--full on one machine multiplies and writes, in a few seconds", () =>
  inTemp(async (cwd) => {
    const result = await doctor(["--full"], { cwd });
    assertEquals(result.code, 0, result.stdout + result.stderr);
    assertMatch(result.stdout, /\n {2}good {2}matmul +\d+(\.\d+)? GFLOP\/s, f32 on 1 CPU\n/);
    assertMatch(result.stdout, /\n {2}(good|warn) {2}writes +\S+ [MG]iB\/s with fsync\n/);
    assertEquals(filesIn(cwd), []);
  }));

Deno.test("--full under launch measures 4 ranks of MPICH within 60 s", () =>
  inTemp(async (cwd) => {
    const began = performance.now();
    const { code, stdout, stderr } = await launch(cwd, mpich(), ["-n", "4", "--", "doctor", "--full"]).result;
    assert(within((performance.now() - began) / 1000, 60));
    assertEquals(code, 0, stdout + stderr);
    assertMatch(stdout, /\n {2}good {2}ranks +4 on \S+, by MPI\n/);
    assertMatch(stdout, /\n {2}good {2}all-reduce +4\.0 KiB in .* by 4 ranks on 1 node\n/);
    assertEquals(stdout.match(/^Verdict/gm)?.length, 1);
  }));

Deno.test("--full under launch without MPI measures 3 ranks by shared memory", () =>
  inTemp(async (cwd) => {
    const words = ["-n", "3", "--", "doctor", "--full"];
    const { code, stdout, stderr } = await launch(cwd, null, words, withoutMpi(cwd)).result;
    assertEquals(code, 0, stdout + stderr);
    assertMatch(stdout, /\n {2}good {2}ranks +3 on \S+, by shared memory\n/);
    assertMatch(stdout, /\n {2}good {2}all-reduce +4\.0 KiB in .* by 3 ranks on 1 node\n/);
  }));

Deno.test("--full under launch with Open MPI measures although something is bad; its code is 1, and nobody adds a line", () =>
  inTemp(async (cwd) => {
    const words = ["-n", "2", "--", "doctor", "--full", "--data-path", "missing"];
    const { code, stdout, stderr } = await launch(cwd, openMpi(), words).result;
    assertEquals(code, 1, stdout + stderr);
    assertMatch(stdout, /bad +storage +data in missing can't be read/);
    assertMatch(stdout, /good +all-reduce .* by 2 ranks on 1 node/);
    assertEquals(stderr.trimEnd().split("\n").length, 1, stderr); // which ranks were started
  }));

/** Four ranks, each on a node of its own name, by MPICH's launcher. */
async function onNodes(
  cwd: string,
  args: string[],
  more: Record<string, string>,
  meanwhile: (pidOf: (rank: number) => number[]) => Promise<void> = () => Promise.resolve(),
) {
  const { folder } = mpich();
  Deno.writeTextFileSync(join(cwd, "node"), NODE, { mode: 0o755 });
  const child = start(["doctor", ...args], {
    cwd,
    through: [join(folder, "bin/mpiexec"), "-n", "4", join(cwd, "node")],
    env: { PATH: `${join(folder, "bin")}:${Deno.env.get("PATH")}`, TMPDIR: cwd, ...more },
  });
  const result = finish(child, 300);
  await meanwhile((rank) =>
    [...Deno.readDirSync("/proc")].map(({ name }) => name).filter((name) => /^\d+$/.test(name)).filter(
      (pid) => {
        try {
          const words = Deno.readTextFileSync(`/proc/${pid}/environ`).split("\0");
          return words.includes(`TMPDIR=${cwd}`) && words.includes(`NODE=node${rank + 1}`);
        } catch {
          return false; // gone, or not ours
        }
      },
    ).map(Number)
  );
  return await result;
}

Deno.test({
  name:
    "of 4 nodes the one that is throttled is named by --full, with its --exclude, within 60 s (needs root)",
  ignore: !nodesPossible,
  fn: () =>
    inTemp(async (cwd) => {
      const began = performance.now();
      const result = await onNodes(
        cwd,
        ["--full", "--threads", "1"],
        {},
        (pidOf) => throttled(() => pidOf(2)),
      );
      assert(within((performance.now() - began) / 1000, 60));
      assertNamed(
        result,
        "warn",
        /^matmul +rank 2 on node3 is slow: .*GFLOP\/s on its CPU, where .*--exclude=node3\.$/,
      );
      assertMatch(result.stdout, /\n {2}(good|warn) {2}pairs +/);
      assertMatch(result.stdout, /\nWithout those nodes: sbatch --exclude=\S*node3\S* \.\.\.\n/);
      assertEquals(result.code, 0, result.stdout + result.stderr);
      assertEquals(filesIn(cwd), ["node"]);
    }),
});

Deno.test({
  name: "of 4 nodes the one without libtorch is named by --full, with its --exclude (needs root)",
  ignore: !nodesPossible,
  fn: () =>
    inTemp(async (cwd) => {
      const result = await onNodes(cwd, ["--full", "--threads", "1"], { BARE: "node4" });
      assertNamed(
        result,
        "bad",
        /^ranks +Rank 3 on node4 can't go on: .*there is no such folder.*--exclude=node4\.$/,
      );
      assertMatch(result.stdout, /\nWithout those nodes: sbatch --exclude=node4 \.\.\.\n/);
    }),
});

Deno.test({
  name:
    "a cut network between two nodes is named on both, with what was tried, within 60 s (needs root and ip)",
  ignore: !nodesPossible,
  fn: () =>
    onCutLink(async (hosts, folder) => {
      const began = performance.now();
      const ranks = hosts.map(({ namespace }, rank) =>
        run(["doctor", "--full", "--timeout", "6s", "--save-dir", folder, "--threads", "1"], {
          cwd: folder,
          through: ["ip", "netns", "exec", namespace],
          env: {
            ...{ RANK: `${rank}`, WORLD_SIZE: "2", LOCAL_RANK: "0", LOCAL_WORLD_SIZE: "1" },
            ...{ GROUP_RANK: `${rank}`, GROUP_WORLD_SIZE: "2", MASTER_ADDR: hosts[0].address },
          },
        })
      );
      const [zero, one] = await Promise.all(ranks);
      assert(within((performance.now() - began) / 1000, 60));
      assertNamed(
        zero,
        "bad",
        /^ranks +Of 2 ranks 1 came within \d+ s; rank 1 .*never arrived: .*every node can reach/,
      );
      assertEquals(one.code, 5, one.stdout + one.stderr);
      assertMatch(
        one.stderr,
        new RegExp(`Rank 0 was not found: tried .*${hosts[0].address}:\\d+ \\(can't be reached\\)`),
      );
    }),
});
