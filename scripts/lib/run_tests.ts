// Runs the checks and the tests, group by group, and ends with the line that counts them. Started by scripts/test.

import { parseJunit, type TestResult } from "./junit.ts";

const MINUTES_A_GROUP = 45;
/** Most tests wait for processes as much as they compute. */
const GROUPS_AT_ONCE = Math.min(2, navigator.hardwareConcurrency);
/** Threads that wait for each other's part of an op would spin, and keep the cores from the other group. */
const SHARED = { OMP_WAIT_POLICY: "passive" };

interface Group {
  readonly name: string;
  readonly files: string[];
  readonly env?: Record<string, string>;
}

const filter = Deno.args[0];
if (!Deno.stdout.isTerminal()) Deno.env.set("NO_COLOR", "1"); // Deno's tests are coloured even in a file
const ci = Deno.env.get("CI") === "true";
const results: TestResult[] = [];

if (!filter) { for (const task of ["fmt", "lint", "check"]) await check(task); }
const { files, names } = selectTests(filter);
const groups = groupsOf(files);
const alone = groups.length === 1;
const next = groups.values();
await Promise.all(Array.from({ length: GROUPS_AT_ONCE }, async () => {
  for (const group of next) await testGroup(group);
}));
Deno.exit(summary());

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

/** A path's part picks files; anything else is a part of tests' names. */
function selectTests(filter = ""): { files: string[]; names?: string } {
  const all = testFiles("tests").sort();
  const chosen = all.filter((file) => file.includes(filter));
  return chosen.length > 0 ? { files: chosen } : { files: all, names: filter };
}

function testFiles(folder: string): string[] {
  return [...Deno.readDirSync(folder)].flatMap((entry) => {
    const path = `${folder}/${entry.name}`;
    return entry.isDirectory ? testFiles(path) : /_test\.ts$/.test(entry.name) ? [path] : [];
  });
}

/**
 * Each group is a process of its own: a crash in native code loses that group's results and no other's. The tests that
 * run the program from outside come first, a file a group, since they take longest.
 */
function groupsOf(files: string[]): Group[] {
  const room = (file: string) => file.split("/").slice(1, -1).slice(0, 2).join("/") || "tests";
  const name = (file: string) => room(file) === "integration" ? file.slice("tests/".length) : room(file);
  const groups: Group[] = [...Map.groupBy(files, name)].map(([name, files]) => ({ name, files }));
  const oldest = Deno.env.get("HPCTRAIN_LIBTORCH_OLDEST");
  const native = files.filter((file) => /^tests\/ffi\/(?!libraries\/|mpi\/|ranks\/)/.test(file)); // these load none
  if (oldest && native.length > 0) {
    groups.push({ name: "ffi on the oldest libtorch", files: native, env: { HPCTRAIN_LIBTORCH: oldest } });
  }
  const outside = ({ name }: Group) => name.startsWith("integration") ? 0 : 1;
  return groups.sort((a, b) => outside(a) - outside(b));
}

async function testGroup({ name: group, files, env = {} }: Group) {
  const start = performance.now();
  const junit = await Deno.makeTempFile({ suffix: ".xml" });
  const output = await Deno.makeTempFile({ suffix: ".txt" });
  const args = ["test", "--allow-all", "--no-check", `--junit-path=${junit}`];
  if (names) args.push("--filter", names);
  if (alone) console.log(`\n== ${group}`);
  // What groups print would mix: each one's comes in one piece, when it has ended.
  const shell = alone ? 'exec "$@"' : 'exec "$@" >"$0" 2>&1';
  const command = ["-c", shell, output, Deno.execPath(), ...args, ...files];
  const child = new Deno.Command("sh", { args: command, env: { ...SHARED, ...env }, stdin: "null" }).spawn();
  let overdue = false;
  const timer = setTimeout(() => {
    overdue = true;
    child.kill("SIGKILL");
  }, MINUTES_A_GROUP * 60_000);
  const { success, code, signal } = await child.status;
  clearTimeout(timer);
  if (!alone) console.log(`\n== ${group}\n${(await Deno.readTextFile(output)).trimEnd()}`);
  await Deno.remove(output);
  const all = parseJunit(await Deno.readTextFile(junit));
  // What a filter leaves out is reported as skipped too, and a step beside the test that it is a part of.
  const found = all.filter((r) => r.outcome !== "skipped" || r.name.includes(names ?? ""))
    .filter((r) => !all.some((test) => test.file === r.file && r.name.startsWith(`${test.name} > `)));
  await Deno.remove(junit);
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

function summary(): number {
  const show = (r: TestResult) =>
    console.log(`  ${r.seconds.toFixed(1).padStart(6)} s  ${r.file}  ${r.name}`);
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
  failures.forEach(show);
  if (results.length === 0) console.log(`No test's path or name contains "${filter}".`);
  const passed = results.length - skipped.length - failures.length;
  const failed = failures.length + refused.length, left = skipped.length - refused.length;
  console.log(`${passed} passed, ${failed} failed${left > 0 ? `, ${left} skipped` : ""}`);
  return failed > 0 || results.length === 0 ? 1 : 0;
}
