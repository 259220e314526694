// Takes each wait, event and copy of the GPU's path out of a copy of the sources, one at a time, and says whether runs on
// the CUDA stand-in notice: deno run --allow-all tests/cuda/mutants.ts [PATTERN]. At least nine in ten have to be caught.
import { join } from "paths";
import { environment, eventsOf } from "../integration/program.ts";
import { DATA, SHORT, SPIKES } from "./cases.ts";
import { copyOfSources, type Run, runAll, violations } from "./runs.ts";
import { standin, standinEnv } from "./standin.ts";

interface Mutant {
  readonly file: string;
  readonly from: string;
  readonly to: string;
  /** This goes too. */
  readonly also?: string;
  /** Two ranks are needed to see it. */
  readonly ranks?: boolean;
}

const FEED = "core/train/feed.ts",
  CUDA = "ffi/cuda.ts",
  READBACK = "ffi/readback.ts",
  SAVER = "core/checkpoint/background/writer.ts";
const NCCL = "core/ranks/nccl/engine.ts", CAPTURED = "core/train/captured_step.ts";
const GRAPH = "ffi/cuda_graph.ts", METRICS = "core/train/running_metrics.ts";

const gone = (file: string, from: string, ranks = false): Mutant => ({ file, from, to: "", ranks });

const MUTANTS: readonly Mutant[] = [
  gone(FEED, "if (!known) synchroniseEvent(other.copied);"),
  gone(FEED, "      waitForEvent(copying, slot.used);\n"),
  gone(FEED, "      if (!slot.recorded) recordEvent(slot.used, currentStream());\n"),
  { file: FEED, from: "slot.readers !== undefined && hasPassed(slot.readers)", to: "true" },
  gone(FEED, "    recordEvent(slot.copied, copying);\n"),
  gone(FEED, "      waitForEvent(currentStream(), slot.copied);\n"),
  gone(FEED, "      if (slot.recorded) recordEvent(slot.used, compute);\n"),
  {
    file: FEED,
    from: "onStream(copying, () => copy_(first(slot.device[i][field], part.ids.length), from, true));",
    to: "void from;",
  },
  {
    file: FEED,
    from: "copy_(first(slot.pinned[i][field], part.ids.length), host[field])",
    to: "first(slot.pinned[i][field], part.ids.length)",
  },
  {
    file: FEED,
    from: "onStream(copying, () => keep(uninitialised(shape, { dtype, device })))",
    to: "keep(uninitialised(shape, { dtype, device }))",
  },
  gone(READBACK, "  copy_(host, t, true);\n"),
  { file: READBACK, from: "  recordEvent(done, currentStream());\n  t.free();", to: "  t.free();" },
  { file: READBACK, from: "      synchroniseEvent(done);\n      try {", to: "      try {" },
  { file: READBACK, from: "  recordEvent(done, currentStream());\n  return {", to: "  return {" },
  {
    file: READBACK,
    from: "      synchroniseEvent(done);\n      return read(host);",
    to: "      return read(host);",
  },
  { file: CUDA, from: "(waited.get(stream) ?? 0) > events", to: "(waited.get(stream) ?? 0) >= events" },
  gone(SAVER, "      recordEvent(copied, currentStream());\n"),
  gone(SAVER, "      synchroniseEvent(copied);\n"),
  { file: SAVER, from: "} else copy_(twin, t, true);", to: "}" },
  gone(NCCL, "      events.record(ready, computing());\n", true),
  gone(NCCL, "      events.wait(stream, ready);\n", true),
  gone(NCCL, "      events.record(eventOf(shared, ticket, BEGUN), stream);\n", true),
  gone(NCCL, "      events.record(eventOf(shared, ticket, BEGUN), computing());\n", true),
  gone(NCCL, "    events.record(eventOf(shared, ticket, DONE), on);\n", true),
  gone(NCCL, "      if (measured) events.record(pairOf(shared, measured, 0), at);\n", true),
  gone(NCCL, "      events.wait(at, eventOf(shared, ticket, DONE));\n", true),
  gone(NCCL, "      events.record(pairOf(shared, measured, 1), at);\n", true),
  {
    file: NCCL,
    from: "\n    events.record(ready, computing());\n",
    to: "\n",
    ranks: true,
  },
  {
    file: NCCL,
    from: "\n    events.wait(stream, ready);\n",
    to: "\n",
    ranks: true,
  },
  gone(NCCL, "    events.record(end, stream);\n", true),
  gone(NCCL, "      if (captured) return events.wait(computing(), captured[-ticket - 1]);\n", true),
  gone(NCCL, "    until(progress(flight).queued + 1 - SLOTS); // whose slot it takes\n", true),
  {
    file: CAPTURED,
    from:
      "for (const { tensors, places } of captured.inputs.groups) foreachCopy_(tensors, places.map((i) => from[i]));",
    to: "void from;",
  },
  { file: CAPTURED, from: "else if (share !== captured.known[i]) fill_(place, share);", to: "" },
  gone(CAPTURED, "    fill_(pinned.rate, rate);\n"),
  gone(CAPTURED, "      copy_(optimizer.onDevice!.rate, pinned.rate, true);\n"),
  gone(CAPTURED, "      copy_(numbers, made, true);\n"),
  gone(CAPTURED, "    optimizer.onDevice!.begin();\n"),
  gone(CAPTURED, "      seeds.seed(0);\n"),
  {
    file: GRAPH,
    from: 'ok(runtime.launch(executable, currentStream()), "replay its graph")',
    to: "undefined",
  },
  gone(METRICS, "    copy_(place.output, output);\n"),
  gone(METRICS, "    copy_(place.target, target);\n"),
  gone(METRICS, "  copy_(place.loss, loss);\n"),
  gone(METRICS, "      fill(buffer.output, output);\n"),
  gone(METRICS, "      fill(buffer.target, target);\n"),
  gone(METRICS, '      fill(buffer.losses, toDtype(loss, "f64"));\n'),
  gone(METRICS, "      copy_(next, indexSelect(after, 0, next));\n"),
  gone(METRICS, "  if (isGraphs(buffer) && batches.length < places.length) zero_(buffer.next);\n"),
];

const RUNS = {
  plain: "--model mlp --ema 0.9 --save-interval 2steps",
  data: "--model mlp --data ./data.ts --num-workers 2 --train-samples 320 --batch-size 4 --epochs 1",
  // Batches are read by the training thread.
  rewound: `--model mlp --on-spike rewind ${SPIKES} --num-workers 0`,
  accumulated: "--model mlp --grad-accum 3 --train-samples 250 --dropout 0.2",
  images: "--model simple-convnet --no-compile --eval-batch-size 7",
  // Batches are finished before the graph, which reads copies.
  mixed: "--model mlp --mixup 0.2 --batch-size 8",
};
const RESUMED = "--model mlp --ema 0.9 --epochs 3 --resume checkpoints/plain_latest.pt --run-name resumed";
const words = (flags: string) => `${SHORT} --device cuda ${flags}`.split(" ");

interface Seen {
  /** What went wrong; empty for a run that seems fine. */
  readonly wrong: string;
  readonly numbers: string;
}

function numbersOf(cwd: string, names: readonly string[]): string {
  const events = names.flatMap((name) => eventsOf(cwd, name)).filter(({ kind }) =>
    /^(step|epoch|eval)$/.test(kind)
  );
  return JSON.stringify(
    events.map(({ loss, val_loss, grad_norm, metrics }) => [loss, val_loss, grad_norm, metrics]),
  );
}

async function alone(cwd: string, sources: string, timeout: number): Promise<Seen> {
  const named = Object.entries(RUNS).map(([name, flags]): Run => ({
    args: words(`${flags} --run-name ${name}`),
    late: true,
  }));
  const ends = await runAll(cwd, [...named, { args: words(RESUMED), late: true }], { sources, timeout });
  const wrong = ends.flatMap((
    end,
  ) => [...violations(end), ...(end.code === 0 ? [] : [`code ${end.code}: ${end.error}`])]);
  return { wrong: wrong[0] ?? "", numbers: numbersOf(cwd, [...Object.keys(RUNS), "resumed"]) };
}

async function onRanks(cwd: string, sources: string, timeout: number): Promise<Seen> {
  const args = [
    "launch",
    "-n",
    "2",
    "--",
    ...words("--model mlp --bucket-mb 1 --train-samples 160 --set distributed.capture=true --run-name ranks"),
  ];
  const { code, stdout, stderr } = await new Deno.Command("timeout", {
    args: [
      "-k",
      "5",
      String(timeout),
      Deno.execPath(),
      "run",
      "-qA",
      "--no-check",
      join(sources, "main.ts"),
      ...args,
    ],
    cwd,
    env: environment(standinEnv(folder, { lateMs: 5, more: { CUDA_STANDIN_DEVICES: "2" } })),
    clearEnv: true,
  }).output();
  const said = new TextDecoder().decode(stdout) + new TextDecoder().decode(stderr);
  const wrong = /.*VIOLATION.*/.exec(said)?.[0] ?? (code === 0 ? "" : `code ${code}`);
  return { wrong, numbers: numbersOf(cwd, ["ranks"]) };
}

/** Runs take place in a folder of their own, so that names are the same. */
async function look(sources: string, ranks: boolean, timeout: number): Promise<Seen> {
  const cwd = Deno.makeTempDirSync();
  Deno.writeTextFileSync(join(cwd, "data.ts"), DATA);
  try {
    return await (ranks ? onRanks : alone)(cwd, sources, timeout);
  } catch (error) {
    return { wrong: error instanceof Error ? error.message.split("\n")[0] : String(error), numbers: "" };
  } finally {
    Deno.removeSync(cwd, { recursive: true });
  }
}

const nameOf = ({ file, from }: Mutant): string => `${file}: ${from.trim().split("\n")[0]}`;

/** What runs on these sources are like. A run that takes ten times as long hangs. */
interface Sound extends Seen {
  readonly timeout: number;
}

async function soundOf(sources: string, ranks: boolean): Promise<Sound> {
  const began = performance.now(), seen = await look(sources, ranks, 600);
  if (seen.wrong) throw new Error(`the sources as they are: ${seen.wrong}`);
  return { ...seen, timeout: Math.ceil(60 + (performance.now() - began) / 100) };
}

/** What notices; "" for nothing. */
async function noticed(mutant: Mutant, sources: string, sound: Sound): Promise<string> {
  const { file, from, to, also = "", ranks = false } = mutant, path = join(sources, file);
  const text = Deno.readTextFileSync(path);
  if ([from, also].some((part) => part !== "" && text.split(part).length !== 2)) {
    throw new Error(`${nameOf(mutant)} is not in the sources once`);
  }
  Deno.writeTextFileSync(path, text.replace(from, () => to).replace(also, ""));
  try {
    const { wrong, numbers } = await look(sources, ranks, sound.timeout);
    return wrong || (numbers !== sound.numbers ? "other numbers" : "");
  } finally {
    Deno.writeTextFileSync(path, text);
  }
}

const pattern = new RegExp(Deno.args[0] ?? "");
const folder = await standin();
const copies = await Promise.all([copyOfSources(), copyOfSources()]);
try {
  const [first, second] = copies;
  const sound = { alone: await soundOf(first, false), ranks: await soundOf(first, true) };
  const again = { alone: await soundOf(second, false), ranks: await soundOf(second, true) };
  if (again.alone.numbers !== sound.alone.numbers || again.ranks.numbers !== sound.ranks.numbers) {
    throw new Error("the sources as they are give other numbers the second time");
  }
  const wanted = MUTANTS.filter((mutant) => pattern.test(nameOf(mutant))), next = wanted.values();
  let caught = 0;
  await Promise.all(copies.map(async (sources) => {
    for (const mutant of next) {
      const how = await noticed(mutant, sources, mutant.ranks ? sound.ranks : sound.alone);
      if (how) caught++;
      console.log(
        `${how ? "caught" : "MISSED"}  ${nameOf(mutant)}${how ? `\n        ${how.slice(0, 160)}` : ""}`,
      );
    }
  }));
  console.log(`${caught} of ${wanted.length} caught`);
  Deno.exitCode = caught >= 0.9 * wanted.length ? 0 : 1;
} finally {
  for (const sources of copies) Deno.removeSync(sources, { recursive: true });
}
