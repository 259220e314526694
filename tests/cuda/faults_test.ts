// Each call of CUDA fails once on the stand-in: the run ends with the right code and a sentence, what was saved before
// can be opened, and no process is left.
import { assert, assertEquals, assertMatch } from "@std/assert";
import { join } from "@std/path";
import { readPt } from "../../core/checkpoint/pt.ts";
import { EXIT } from "../../core/base/errors.ts";
import { eventsOf, filesIn, inTemp } from "../integration/program.ts";
import { launch, processesOf } from "../integration/launches.ts";
import { MLP, SHORT } from "./cases.ts";
import { type Ended, runAll, violations } from "./runs.ts";
import { onStandin, standin, standinEnv } from "./standin.ts";

const OUT_OF_MEMORY = 2, LAUNCH_FAILED = 719, ILLEGAL_ADDRESS = 700, UNKNOWN = 999;
const CODES = [LAUNCH_FAILED, OUT_OF_MEMORY, UNKNOWN, ILLEGAL_ADDRESS];
/** Capture is left out: libtorch answers a failure there with a C++ exception, which ends the process. */
const RUN = `${SHORT} ${MLP} --device cuda --no-compile --save-interval 1steps --epochs 3`;

/** What a run calls, and how often. */
const callsOf = ({ counts }: Ended): [string, number][] =>
  Object.entries(counts).filter(([name, { count }]) => name.startsWith("call:") && count > 1)
    .map(([name, { count }]) => [name.slice("call:".length), count]);

/** Null where a run took the failure as it should. */
function fault(cwd: string, fail: string, name: string, end: Ended): string | null {
  const fired = Object.entries(end.counts).some(([name, { count }]) =>
    name.startsWith("failed:") && count > 0
  );
  if (!fired) return null; // it was called less often this time
  const memory = fail.endsWith(`:${OUT_OF_MEMORY}`);
  // libtorch's allocator frees what it keeps, and asks again.
  const right: number[] = memory ? [EXIT.memory, EXIT.environment, EXIT.done] : [EXIT.environment];
  if (!right.includes(end.code)) return `${fail}: code ${end.code}: ${end.error}`;
  const bad = violations(end);
  if (bad.length > 0) return `${fail}: ${bad}`;
  const saved = eventsOf(cwd, name).some(({ kind }) => kind === "save");
  try {
    if (saved) readPt(join(cwd, "checkpoints", `${name}_latest.pt`))[Symbol.dispose]();
  } catch (error) {
    return `${fail}: ${error}`;
  }
  const rest = filesIn(join(cwd, "checkpoints")).filter((file) => !/_(latest|best)\.pt$/.test(file));
  return rest.length === 0 ? null : `${fail} leaves ${rest}`;
}

onStandin(
  "each call of CUDA that fails in the middle of a run ends it with its code, and loses no file",
  () =>
    inTemp(async (cwd) => {
      const args = (name: string) => `${RUN} --run-name ${name}`.split(" ");
      const [, whole] = await runAll(cwd, [{ args: args("first") }, { args: args("whole") }]);
      const fails = callsOf(whole).flatMap(([name, count]) =>
        CODES.map((code) => `${name}:${Math.ceil(0.7 * count)}:${code}`)
      );
      assert(fails.length > 30, String(fails));
      const ends = (await runAll(cwd, [
        { args: args("before") },
        ...fails.map((fail, i) => ({ args: args(`failed${i}`), fail })),
      ])).slice(1);
      assertEquals(
        ends.map((end, i) => fault(cwd, fails[i], `failed${i}`, end)).filter((one) => one !== null),
        [],
      );
    }),
);

onStandin(
  "two ranks of which a GPU fails in a collective end together, and no process is left",
  () =>
    inTemp(async (cwd) => {
      const more = { CUDA_STANDIN_DEVICES: "2", CUDA_STANDIN_FAIL: `ncclAllReduce:9:${LAUNCH_FAILED}` };
      const env = standinEnv(await standin(), { lateMs: 2, more });
      const flags = `-n 2 -- ${SHORT} ${MLP} --device cuda --save-interval 1steps --run-name r`.split(" ");
      const { code, stdout, stderr } = await launch(cwd, null, flags, env).result;
      assert(code === EXIT.communication || code === EXIT.environment, `${code}: ${stdout}${stderr}`);
      assertMatch(stderr, /Rank \d on \S+ failed first/);
      assertEquals(processesOf(cwd), []);
    }),
);
