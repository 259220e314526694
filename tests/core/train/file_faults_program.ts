// Makes the file calls of a run's saves fail, one after the other, and prints what became of it as JSON: every call with
// one errno in turn and every kind of call with all of them; with `all` every call with every errno. Formats of checkpoints
// may be named. Needs file_faults.c.
import { openCheckpoint } from "../../../core/checkpoint/open.ts";
import { UserError } from "../../../core/base/errors.ts";
import { latestPath } from "../../../core/train/run_folder.ts";
import type { Trainer } from "../../../core/train/trainer.ts";
import { type Call, CALLS, COMMON, ERRNOS, type Fault, steerFaults } from "../../native/file_faults.ts";
import { started } from "./started.ts";

export interface Told {
  /** Calls that were made to fail, of each kind. */
  readonly faults: Partial<Record<Call, number>>;
  /** How often a save was told as failed. */
  readonly failed: number;
  /** How often it succeeded all the same. */
  readonly saved: number;
  /** What went otherwise than promised. */
  readonly wrong: string[];
}

const MLP = "--data-type synthetic --model mlp --train-samples 64 --val-samples 16 --batch-size 8 --epochs 3"
  .split(" ");
const FLAGS = [
  ...MLP,
  "--save-every-epoch",
  "--keep-last",
  "2",
  "--hidden-size",
  "8",
  "--layers",
  "1",
  "--optimizer",
  "sgd",
];
const faults = steerFaults(Deno.env.get("FILE_FAULTS")!);
const every = Deno.args.includes("all");
const FORMATS = ["pt", "safetensors", "sharded"];
const OFTEN = Object.values(COMMON);

const EINTR = 4, TRIES = 50;

let turn = 0;
const inTurn = (count: number) => Array.from({ length: count }, () => OFTEN[turn++ % OFTEN.length]);

/** Which of so many calls of a kind fail, and how. `share`: whose errnos, where kinds of checkpoints share them out. */
function* casesOf(call: Call, count: number, path: string, share: number): Generator<Fault, undefined> {
  const all = ERRNOS.filter((errno) => every || errno % FORMATS.length === share);
  for (let number = 1; number <= count; number++) {
    for (const errno of every || number === 1 ? all : inTurn(1)) yield { call, errno, number, path };
  }
  if (count === 0) return;
  // A disk that is gone. Who is interrupted tries again, for ever if need be.
  for (const errno of every ? all : inTurn(1)) {
    yield { call, errno, number: [1, errno === EINTR ? TRIES : Infinity], path };
  }
}

async function savesAs(format: string, folder: string): Promise<Told> {
  const path = `${folder}/checkpoints`;
  return await started(folder, [...FLAGS, "--checkpoint-format", format], async (prepared) => {
    const { saver, cursor } = prepared;
    const told = { faults: {} as Told["faults"], failed: 0, saved: 0, wrong: [] as string[] };
    const save = async () => {
      cursor.step++;
      cursor.epoch = cursor.step % 5;
      await saver.save("epoch", cursor.step % 2 === 0);
      return await saver.settle().then(() => null, (error) => error as Error);
    };
    const stepOf = () => stepIn(prepared);
    for (let i = 0; i < 3; i++) await save(); // what a later save makes of an earlier one's files is among its calls
    faults.begin({ call: "open", errno: 0, path });
    await save();
    const { counts } = faults.end();
    for (const call of CALLS) {
      if (every) console.error(`${format}: ${call}, ${counts[call]} a save`);
      for (const fault of casesOf(call, counts[call], path, FORMATS.indexOf(format))) {
        const before = stepOf();
        faults.begin(fault);
        const error = await save();
        const { failed } = faults.end();
        if (failed === 0) continue; // other calls were made this time
        told.faults[call] = (told.faults[call] ?? 0) + 1;
        const says = (what: string) =>
          told.wrong.push(`${call} ${fault.number}, errno ${fault.errno}: ${what}`);
        const now = read(stepOf, says);
        if (error === null) {
          told.saved++;
          if (now !== cursor.step) says(`told as saved, and step ${now} is there in place of ${cursor.step}`);
        } else {
          told.failed++;
          const { kind } = error as UserError;
          if (kind !== "checkpoint") {
            says(`the run would end: ${error.stack}`);
            return told;
          }
          if (now !== cursor.step && now !== before) {
            says(`step ${now} is there after ${before} and ${cursor.step}`);
          }
        }
      }
    }
    if (await save() !== null || stepOf() !== cursor.step) {
      told.wrong.push("the disk is well, and saves are not");
    }
    return told;
  });
}

function read(step: () => unknown, says: (what: string) => void): unknown {
  try {
    return step();
  } catch (error) {
    says(`the checkpoint can't be read: ${(error as Error).message}`);
  }
}

/** Of a checkpoint that is whole. */
function stepIn({ paths: places }: Trainer): unknown {
  using file = openCheckpoint(latestPath(places));
  file.verify();
  const own = (file.root as Map<string, Map<string, Map<string, unknown>>>).get("hpctrain")!;
  return own.get("cursor")!.get("step");
}

const folder = Deno.makeTempDirSync();
try {
  const told: Record<string, Told> = {};
  const named = FORMATS.filter((format) => Deno.args.includes(format));
  for (const format of named.length > 0 ? named : FORMATS) {
    const own = `${folder}/${format}`;
    Deno.mkdirSync(own);
    told[format] = await savesAs(format, own);
  }
  console.log(JSON.stringify(told, null, 1));
} finally {
  Deno.removeSync(folder, { recursive: true });
}
