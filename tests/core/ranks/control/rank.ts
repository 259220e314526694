// One rank of a small job, as a process of its own: where it is comes from the environment, what it does from its
// argument.
import { UserError } from "../../../../core/base/errors.ts";
import { type Control, openControl } from "../../../../core/ranks/control/control.ts";
import { beginCollective, end, enter, openFlightRecorder } from "../../../../core/ranks/flight_recorder.ts";
import { rankContext } from "../../../../core/ranks/context.ts";

const [what, folder] = Deno.args;
const env = Deno.env.toObject();
const where = rankContext(env);
const { rank } = where;
const victim = Number(env.TEST_VICTIM ?? 1);
const flight = openFlightRecorder();

/** No event loop, no JavaScript: as in a native call. */
const sleep = (ms: number) => void Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms);

let control: Control | null = null;
try {
  control = await openControl({
    where,
    folder: env.TEST_NO_FOLDER ? null : folder,
    runFolder: `${folder}/logs`,
    device: env.TEST_DEVICE ?? null,
    versions: { hpctrain: env.TEST_VERSION ?? "0.1.0" },
    settings: { "training.batch_size": Number(env.TEST_BATCH ?? 64) },
    timeout: 4,
    flight: flight.shared,
    limits: { arrive: 60_000, firstStall: 4000, silence: 5000, ...JSON.parse(env.TEST_LIMITS ?? "{}") },
  });
  control.runFolder(`${folder}/logs/run`);
  const word = control.broadcast(rank === 0 ? { word: "hello", bytes: [1, 2] } : undefined);
  const id = control.broadcastBytes(rank === 0 ? Uint8Array.of(7, 8, 9) : undefined);
  control.barrier("weights");
  console.log(
    JSON.stringify({ ready: control.hosts.map((_, rank) => rank), word, id: [...id], met: control.met }),
  );
  for (let step = 1; step <= 2000; step++) {
    const due = control.agreed();
    if (due) {
      console.log(JSON.stringify({ due, step }));
      if (due.what === "stop") break;
    }
    control.phase("data.next");
    if (what === "hang" && rank === victim && step === 4) sleep(60_000);
    if (what === "throw" && rank === victim && step === 4) {
      throw new UserError("data", "images/3.jpg: is not an image.");
    }
    control.phase("gradients");
    const sequence = enter(flight, 0, 1024, "block 7");
    beginCollective(flight, sequence);
    if (["hang", "throw", "kill"].includes(what) && rank !== victim && step === 4) sleep(60_000);
    if (what === "kill" && rank === victim && step === 4) Deno.kill(Deno.pid, "SIGKILL");
    end(flight, sequence);
    control.step(step);
    if (what === "wish" && rank === 1 && step === 5) control.request("save", "the file SAVE");
    if (what === "wish" && rank === 2 && step === 40) control.request("stop", "SIGTERM");
    sleep(what === "wish" ? 5 + 3 * rank : what === "link" ? 20 : 1);
    if (what === "run" && step === 20) break;
  }
  await control.close();
} catch (error) {
  if (!(error instanceof UserError)) throw error;
  control?.fail(error.message, error.exitCode);
  console.error(`hpctrain: ${error.message}`);
  Deno.exit(error.exitCode);
}
Deno.exit(0);
