// Each call of CUDA fails once on the stand-in: the run ends with the right code and a sentence, what was saved before
// can be opened, and no process is left.
import { assert, assertEquals, assertMatch } from "@std/assert";
import { join } from "paths";
import { readPt } from "../../core/checkpoint/pt.ts";
import { EXIT } from "../../core/base/errors.ts";
import { eventsOf, filesIn, inTemp } from "../integration/program.ts";
import { launch, processesOf } from "../integration/launches.ts";
import { CONVNET, MLP, SHORT } from "./cases.ts";
import { type Ended, runAll, violations } from "./runs.ts";
import { onStandin, standin, standinEnv } from "./standin.ts";

const OUT_OF_MEMORY = 2, LAUNCH_FAILED = 719, ILLEGAL_ADDRESS = 700, UNKNOWN = 999;
const CODES = [LAUNCH_FAILED, OUT_OF_MEMORY, UNKNOWN, ILLEGAL_ADDRESS];
const RUN = `${SHORT} ${MLP} --device cuda --no-compile --save-interval 1steps --epochs 3`;
/** The second capture to begin is libtorch's, which a capture of nothing comes before: see ffi/cuda_graph.ts. */
const CAPTURING = [
  ...["cudaStreamBeginCapture:1", "cudaStreamBeginCapture:2"], // an empty one, and libtorch's
  ...["cudaStreamEndCapture:1", "cudaStreamEndCapture:2", "cudaGraphInstantiate:1", "cudaMalloc:4"],
  ...["cudaLaunchKernel:230", "cudaLaunchKernel:260"], // backward and update, while they are captured
];

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

const lossesOf = (cwd: string, name: string) =>
  eventsOf(cwd, name).filter(({ kind }) => kind === "step").map(({ loss }) => loss);
const uncaptured = (cwd: string, name: string) =>
  eventsOf(cwd, name).filter(({ message }) => /can't be captured as a CUDA graph, so/.test(String(message)));

onStandin(
  "a capture that fails half-way leaves a run that goes on op by op and says why; a GPU that fails in it ends the run",
  () =>
    inTemp(async (cwd) => {
      const captured = RUN.replace("--no-compile", "--compile=exact");
      const fails = CAPTURING.flatMap((call) =>
        [OUT_OF_MEMORY, LAUNCH_FAILED].map((code) => `${call}:${code}`)
      );
      fails.push(`cudaGraphLaunch:3:${OUT_OF_MEMORY}`, `cudaGraphLaunch:3:${LAUNCH_FAILED}`);
      const ends = await runAll(cwd, [
        { args: `${captured} --run-name whole`.split(" ") },
        ...fails.map((fail, i) => ({ args: `${captured} --run-name failed${i}`.split(" "), fail })),
      ]);
      assertEquals(uncaptured(cwd, "whole"), []);
      const losses = lossesOf(cwd, "whole");
      ends.slice(1).forEach((end, i) => {
        assertEquals(fault(cwd, fails[i], `failed${i}`, end), null);
        if (end.code !== EXIT.done) return;
        assertEquals(lossesOf(cwd, `failed${i}`), losses, fails[i]);
        if (!fails[i].startsWith("cudaMalloc")) {
          assertEquals(uncaptured(cwd, `failed${i}`).length, 1, fails[i]);
        }
      });
      // libtorch's own replay, which sets the seeds of what is drawn.
      const draws = `${captured} --dropout 0.2 --run-name drawing`.split(" "),
        lost = `cudaGraphLaunch:3:${LAUNCH_FAILED}`;
      const [drawing] = await runAll(cwd, [{ args: draws, fail: lost }]);
      assertEquals(fault(cwd, lost, "drawing", drawing), null);
      const ways = ["BeginCapture", "EndCapture", "Instantiate", "LaunchKernel"];
      const through = (way: string) =>
        fails.some((fail, i) => fail.includes(way) && ends[i + 1].code === EXIT.done);
      assertEquals(ways.filter((way) => !through(way)), []);
    }),
);

onStandin(
  "a graph whose memory does not fit beside the steps before it leaves a run that goes on op by op in what there is",
  () =>
    inTemp(async (cwd) => {
      const args =
        `${SHORT} ${CONVNET} --batch-size 64 --train-samples 320 --val-samples 128 --eval-batch-size 128 ` +
        "--epochs 1 --device cuda --compile=exact --run-name tight";
      const more = { CUDA_STANDIN_MEMORY_MIB: "64" };
      const [end] = await runAll(cwd, [{ args: args.split(" ") }], { more });
      assertEquals([end.code, end.error, ...violations(end)], [EXIT.done, null]);
      assertMatch(String(uncaptured(cwd, "tight")[0]?.message), /CUDA out of memory/);
    }),
);

onStandin(
  "a step that fits op by op trains where a GPU has no room to try a compiled one beside it, to the same losses",
  () =>
    inTemp(async (cwd) => {
      const flags =
        `${SHORT} ${CONVNET} --batch-size 64 --train-samples 256 --val-samples 16 --epochs 1 --device cuda`;
      const room = [40, 56, 64, 80, 128];
      const alone = async (mib: number, name: string, compile: string) => { // what a run leaves would be missing in the next
        const args = `${flags} ${compile} --run-name ${name}${mib}`.split(" ").filter((word) => word !== "");
        return (await runAll(cwd, [{ args }], { more: { CUDA_STANDIN_MEMORY_MIB: String(mib) } }))[0];
      };
      const ends: Ended[][] = [];
      for (const mib of room) {
        ends.push([await alone(mib, "plain", "--no-compile"), await alone(mib, "own", "")]);
      }
      const said = (mib: number) =>
        eventsOf(cwd, `own${mib}`).filter(({ message }) => /has no room to try a plan/.test(String(message)))
          .length;
      const fitting = room.filter((_, i) => ends[i][0].code === EXIT.done);
      assert(fitting.length >= 3 && fitting.length < room.length, `${fitting}`);
      for (const mib of fitting) {
        const [, own] = ends[room.indexOf(mib)];
        assertEquals([mib, own.code, own.error, ...violations(own)], [mib, EXIT.done, null]);
        const [a, b] = ["own", "plain"].map((name) => lossesOf(cwd, `${name}${mib}`));
        assertEquals(a.length, b.length);
        // The update is compiled in any case, and rounds otherwise.
        a.forEach((loss, i) =>
          assert(Math.abs(Number(loss) - Number(b[i])) < 1e-5 * Number(b[i]), `${a} and ${b}`)
        );
      }
      assert(said(fitting[0]) === 1 && said(fitting.at(-1)!) === 0, fitting.map(said).join());
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
