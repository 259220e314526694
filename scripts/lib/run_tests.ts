// Runs the checks and the tests, group by group, and ends with the line that counts them. Started by scripts/test:
// `unit` runs the quick tests, another word those that match it, and `--times` writes down how long each file took.

import { withoutSchedulers } from "./hide_schedulers.ts";
import { parseJunit, type TestResult } from "./junit.ts";
import { allTestFiles, isNative, secondsOf, selectTests, TIMES, times } from "./test_files.ts";

const MINUTES_A_GROUP = 45;
/**
 * Tests of ranks, kills and SLURM wait most of their time, for timers and for each other: four groups keep two cores busy for 80%
 * of it. With six, a test that bounds a time failed beside a busy neighbour. Some groups take 2 GB.
 */
const GROUPS_AT_ONCE = Math.max(
  2,
  Math.min(2 * navigator.hardwareConcurrency, Math.floor(Deno.systemMemoryInfo().total / 2 ** 31)),
);
/** Files of one folder share a process up to these seconds, so that no core waits long for the last group. */
const SECONDS_A_GROUP = 60;
/** Threads that wait for each other's part of an op would spin, and keep the cores from the other groups. */
const SHARED = { OMP_WAIT_POLICY: "passive" };

interface Group {
  readonly name: string;
  readonly files: string[];
  readonly env?: Record<string, string>;
}

const filter = Deno.args.find((word) => word !== "--times");
const unit = filter === "unit";
if (!Deno.stdout.isTerminal()) Deno.env.set("NO_COLOR", "1"); // Deno's tests are coloured even in a file
Deno.env.set("PEER_OWNER", String(Deno.pid)); // all groups share one Python that has imported torch
const links = Deno.makeTempDirSync({ prefix: "path-" });
Deno.env.set("PATH", withoutSchedulers(Deno.env.get("PATH") ?? "", links));
addEventListener("unload", () => Deno.removeSync(links, { recursive: true }));
const ci = Deno.env.get("CI") === "true";
const results: TestResult[] = [];
const measured = new Map<string, { files: string[]; seconds: number; tests: TestResult[] }>();

const { files, names } = selectTests(filter);
const groups = groupsOf(files);
const alone = groups.length === 1;
const checks = !filter || unit ? [checkAll] : [];
const running = new Set<Deno.ChildProcess>();
for (const signal of ["SIGINT", "SIGTERM"] as const) Deno.addSignalListener(signal, () => stop(signal));
const next = [...checks, ...groups.map((group) => () => testGroup(group))].values();
await Promise.all(Array.from({ length: GROUPS_AT_ONCE }, async () => {
  for (const run of next) await run();
}));
if (Deno.args.includes("--times")) writeTimes();
Deno.exit(summary());

/** Groups would go on by themselves. */
function stop(signal: Deno.Signal): never {
  for (const child of running) child.kill("SIGTERM");
  console.log(`Stopped by ${signal}: 0 passed, 1 failed`);
  Deno.exit(1);
}

async function checkAll(): Promise<void> {
  for (const task of ["fmt", "lint", "check"]) await check(task);
}

/** One of deno.json's tasks, counted as one test. */
async function check(task: string): Promise<void> {
  const start = performance.now();
  const { success, stdout, stderr } = await new Deno.Command(Deno.execPath(), {
    args: ["task", "--quiet", task],
  })
    .output();
  if (!success) await Promise.all([Deno.stderr.write(stdout), Deno.stderr.write(stderr)]);
  record(`deno task ${task}`, success ? "passed" : "failed", start);
}

/**
 * Each group is a process of its own: a crash in native code loses that group's results and no other's. The longest
 * come first, so that the cores end their last groups at about the same time.
 */
function groupsOf(files: string[]): Group[] {
  const folder = (file: string) => file.split("/").slice(1, -1).slice(0, 2).join("/") || "tests";
  const name = (file: string) =>
    /^tests\/integration\//.test(file) ? file.slice("tests/".length) : folder(file);
  const groups = [...Map.groupBy(files, name)].flatMap(([name, files]) => parts({ name, files }));
  const oldest = Deno.env.get("HPCTRAIN_LIBTORCH_OLDEST");
  const native = files.filter(isNative);
  if (oldest && !unit && native.length > 0) {
    const env = { HPCTRAIN_LIBTORCH: oldest };
    groups.push(...parts({ name: "ffi on the oldest libtorch", files: native, env }));
  }
  const seconds = (group: Group) => sum(group.files.map(secondsOf));
  return groups.sort((a, b) => seconds(b) - seconds(a));
}

/** As few groups of about equal length as keep to SECONDS_A_GROUP, if files do. Two SLURMs at once are too many. */
function parts(group: Group): Group[] {
  if (group.name.startsWith("integration/")) return [group];
  const count = Math.ceil(sum(group.files.map(secondsOf)) / SECONDS_A_GROUP);
  const parts = Array.from({ length: Math.max(1, count) }, () => ({ files: [] as string[], seconds: 0 }));
  for (const file of group.files.toSorted((a, b) => secondsOf(b) - secondsOf(a))) {
    const least = parts.reduce((a, b) => b.seconds < a.seconds ? b : a);
    least.files.push(file);
    least.seconds += secondsOf(file);
  }
  const used = parts.filter(({ files }) => files.length > 0);
  return used.map(({ files }, i) => ({
    ...group,
    name: used.length > 1 ? `${group.name} (${i + 1} of ${used.length})` : group.name,
    files: files.sort(),
  }));
}

async function testGroup({ name: group, files, env = {} }: Group) {
  const start = performance.now();
  const junit = await Deno.makeTempFile({ suffix: ".xml" });
  const output = await Deno.makeTempFile({ suffix: ".txt" });
  const args = ["test", "--allow-all", "--no-check", `--junit-path=${junit}`];
  if (names) args.push("--filter", names);
  if (alone) console.log(`\n== ${group}`);
  // Groups would mix their output: each one's is printed in one piece, when it has ended.
  const shell = alone ? 'exec "$@"' : 'exec "$@" >"$0" 2>&1';
  const command = ["-c", shell, output, Deno.execPath(), ...args, ...files];
  const child = new Deno.Command("sh", { args: command, env: { ...SHARED, ...env }, stdin: "null" }).spawn();
  running.add(child);
  let overdue = false;
  const timer = setTimeout(() => {
    overdue = true;
    child.kill("SIGKILL");
  }, MINUTES_A_GROUP * 60_000);
  const { success, code, signal } = await child.status;
  clearTimeout(timer);
  running.delete(child);
  if (!alone) console.log(`\n== ${group}\n${(await Deno.readTextFile(output)).trimEnd()}`);
  await Deno.remove(output);
  const all = parseJunit(await Deno.readTextFile(junit));
  // Deno reports tests that a filter leaves out as skipped, and a step beside the test that it is a part of.
  const found = all.filter((r) => r.outcome !== "skipped" || r.name.includes(names ?? ""))
    .filter((r) => !all.some((test) => test.file === r.file && r.name.startsWith(`${test.name} > `)));
  await Deno.remove(junit);
  if (!env.HPCTRAIN_LIBTORCH) {
    measured.set(group, { files, seconds: (performance.now() - start) / 1000, tests: all });
  }
  results.push(
    ...found.map((r) => env.HPCTRAIN_LIBTORCH ? { ...r, name: `${r.name} (oldest libtorch)` } : r),
  );
  if (!success && !found.some((r) => r.outcome === "failed")) {
    const how = overdue ? `took over ${MINUTES_A_GROUP} minutes` : `ended with ${signal ?? `code ${code}`}`;
    record(`the test process of ${group}, which ${how}`, "failed", start);
  }
}

function record(name: string, outcome: TestResult["outcome"], start: number): void {
  results.push({ file: "", name, outcome, seconds: (performance.now() - start) / 1000 });
  console.log(`${name}: ${outcome}`);
}

/** A lone file's seconds are its process's; files that share one have those of their tests. */
function writeTimes(): void {
  for (const { files, seconds, tests } of measured.values()) {
    for (const file of files) {
      const own = sum(tests.filter((test) => test.file === `./${file}`).map((test) => test.seconds));
      times[file] = Number((files.length === 1 ? seconds : own).toFixed(1));
    }
  }
  const kept = allTestFiles().filter((file) => file in times).map((file) => [file, times[file]]);
  Deno.writeTextFileSync(TIMES, JSON.stringify(Object.fromEntries(kept), null, 2) + "\n");
}

function sum(numbers: number[]): number {
  return numbers.reduce((a, b) => a + b, 0);
}

/** All processes that have ended took so many. On a machine that is busy with other things this says more than the time. */
function processorSeconds(): number {
  const stat = Deno.readTextFileSync("/proc/self/stat");
  const [user, system] = stat.slice(stat.lastIndexOf(")") + 2).split(" ").slice(13, 15).map(Number);
  return (user + system) / 100; // Linux counts in hundredths
}

function summary(): number {
  const show = (r: TestResult) =>
    console.log(`  ${r.seconds.toFixed(1).padStart(6)} s  ${r.file}  ${r.name}`);
  const minutes = (performance.now() / 60_000).toFixed(1);
  console.log(`\nIt took ${minutes} minutes, and ${processorSeconds().toFixed(0)} seconds of processors.`);
  console.log("\nThe slowest ten:");
  results.toSorted((a, b) => b.seconds - a.seconds).slice(0, 10).forEach(show);
  const skipped = results.filter((r) => r.outcome === "skipped");
  if (skipped.length > 0) console.log("\nSkipped:");
  skipped.forEach(show);
  // In continuous integration only what needs a GPU may be skipped: everything else can be set up.
  const refused = ci ? skipped.filter((r) => !/\bGPU\b/.test(r.name)) : [];
  if (refused.length > 0) console.log(`With CI=true, ${refused.length} of the skipped count as failed.`);
  const failures = results.filter((r) => r.outcome === "failed");
  if (failures.length > 0) console.log("\nFailed:");
  for (const failure of failures) {
    show(failure);
    if (failure.why) console.log(failure.why.replace(/^/gm, "    "));
  }
  if (results.length === 0) console.log(`No test's path or name contains "${filter}".`);
  const passed = results.length - skipped.length - failures.length;
  const failed = failures.length + refused.length, left = skipped.length - refused.length;
  console.log(`${passed} passed, ${failed} failed${left > 0 ? `, ${left} skipped` : ""}`);
  return failed > 0 || results.length === 0 ? 1 : 0;
}
