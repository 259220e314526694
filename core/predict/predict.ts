import { temporaryFor } from "../base/atomic.ts";
import { writing } from "../base/new_file.ts";
import { ownTargets, plainPart, type Source } from "../data/source/source.ts";
import type { Team } from "../ranks/team.ts";
import { UserError } from "../base/errors.ts";
import { pathExists } from "../base/files.ts";
import {
  type ColumnNames,
  type ColumnRole,
  type ColumnValues,
  openNamedSpool,
  openSpool,
  outlineOf,
  type PredictionColumn,
  predictionColumns,
  readSpool,
  type RowOrder,
  type Spool,
  type SpooledColumn,
} from "./columns.ts";
import { fieldsOf, type GridJob } from "./fields.ts";
import { keepsWhole } from "../data/source/geometry.ts";
import { checkFreeSpace, writePredictions } from "./file.ts";
import { writeGrid } from "./grid.ts";
import { isFloating } from "../../ffi/dtype.ts";
import { autocast } from "../../ffi/context.ts";
import { noGrad } from "../../ffi/autograd.ts";
import { constant, readBytes, scale, toNumbers, upcast } from "../../ffi/make.ts";
import { argmax, cat, exp, gt, narrow, reshape, softmax, toDtype, zerosLike } from "../../ffi/ops.ts";
import { scope, type Tensor } from "../../ffi/tensor.ts";
import type { Loss } from "../models/losses.ts";
import { answersTo, type Pass, tensorList } from "../train/blocks.ts";
import type { Feed } from "../train/feed.ts";
import { shiftedParts } from "../train/metrics.ts";
import { evaluationOutOfMemory } from "../train/memory.ts";

interface DataRole {
  readonly role: ColumnRole;
  readonly source: Source;
}

interface Written {
  readonly name: string;
  readonly shape: readonly number[];
  readonly dimensions?: readonly string[];
}

interface PredictToFileOptions {
  readonly out: string;
  readonly roles: readonly DataRole[];
  readonly order: RowOrder;
  readonly names: ColumnNames;
  readonly job: Omit<PredictOptions, "take">;
  readonly team: Team | null;
  readonly command: string;
  /** The file has the data's grid; null where it has columns. */
  readonly grid: GridJob | null;
}

/** Returns what the file has on the rank that wrote it; null on the others. */
export async function predictToFile(given: PredictToFileOptions): Promise<readonly Written[] | null> {
  const { team } = given;
  const folder = team ? sharedFolder(team, given.out) : null;
  const rank = team?.rank ?? 0, world = team?.world ?? 1;
  const open = ({ role }: DataRole, rank: number) =>
    folder ? openNamedSpool(folder, `${role}-${rank}`) : openSpool(given.out);
  const own = given.roles.map((role) => ({ ...role, spool: open(role, rank) }));
  try {
    await predictShare(given, own, rank, world);
    if (!team || folder === null) {
      return write(
        given,
        own.map(({ role, source: { pathOf }, spool }) => ({ role, pathOf, spools: [spool] })),
      );
    }
    for (const { spool } of own) spool.close(); // a shared file system shows others only closed files
    const all = team.gather(
      own.map(({ spool }) => ({ rows: spool.rows(), columns: spool.columns() })),
      "predict",
    );
    return rank === 0 ? merge(given, folder, all) : null;
  } finally {
    if (folder === null) { for (const { spool } of own) spool.close(); }
    else if (rank === 0) removeAll(folder);
  }
}

async function predictShare(
  { out, roles, order, names, job, grid }: PredictToFileOptions,
  own: readonly { source: Source; spool: Spool }[],
  rank: number,
  world: number,
): Promise<void> {
  const samples = roles.reduce((sum, { source }) => sum + source.length, 0);
  let before = 0, looked = false;
  for (const { source, spool } of own) {
    const range = shareOf(source.length, job.batchSize, rank, world);
    await predictSamples(source, range, {
      ...job,
      poll: (done) => job.poll(before + done),
      take(rows) {
        spool.add(rows);
        if (looked) return;
        looked = true;
        const outline = outlineOf(
          spool.columns(),
          samples,
          order.split ? roles.map(({ role }) => role) : [],
          names,
        );
        checkFreeSpace(out, outline, grid !== null && fieldsOf(outline, grid) !== null);
      },
    });
    before += range.end - range.from;
  }
}

/** Rank 0 makes the folder beside the file, and all ranks see it. */
function sharedFolder(team: Team, out: string): string {
  const made = team.rank === 0 ? temporaryFor(out) : "";
  if (team.rank === 0) writing(out, () => Deno.mkdirSync(made, { recursive: true }));
  const [folder] = team.gather(made, "predict");
  if (pathExists(folder)) return folder;
  throw new UserError(
    "usage",
    `Rank ${team.rank} (${Deno.hostname()}) does not see ${folder}, which rank 0 has made: ranks put their predictions together ` +
      "beside --out, so it must be on a file system that all nodes share.",
  );
}

type RankShare = readonly { readonly rows: number; readonly columns: readonly SpooledColumn[] }[];

function merge(
  given: PredictToFileOptions,
  folder: string,
  all: readonly RankShare[],
): readonly Written[] {
  const parts = given.roles.map(({ role, source: { pathOf } }, i) => ({
    ...{ role, pathOf },
    spools: all.map((spooled, rank) =>
      readSpool(folder, `${role}-${rank}`, spooled[i].columns, spooled[i].rows)
    ),
  }));
  try {
    return write(given, parts);
  } finally {
    for (const { spools } of parts) for (const spool of spools) spool.close();
  }
}

function write(
  { out, roles, order, names, command, grid }: PredictToFileOptions,
  parts: Parameters<typeof predictionColumns>[0],
): readonly Written[] {
  const whole: PredictionColumn["whole"] = ({ height, width }) =>
    roles.every(({ source: { threaded } }) => keepsWhole(threaded?.geometry ?? null, [height, width]));
  const columns = predictionColumns(parts, order, names).map((column) => ({ ...column, whole }));
  const onGrid = grid && writeGrid(out, columns, grid, command);
  return onGrid ?? writePredictions(out, columns, command).map(({ name, shape }) => ({ name, shape }));
}

function removeAll(folder: string): void {
  try {
    Deno.removeSync(folder, { recursive: true });
  } catch {
    // It is in nobody's way.
  }
}

export interface PredictedColumn {
  readonly name: string;
  readonly shape: readonly number[];
  readonly values: ColumnValues;
}

/** The range excludes its end. */
interface SampleRange {
  readonly from: number;
  readonly end: number;
}

interface PredictOptions {
  readonly pass: Pass;
  readonly feed: Feed;
  readonly batchSize: number;
  readonly targets: boolean;
  /** Maps the data's class numbers to the model's where they differ; -1 for unknown classes. */
  readonly relabel?: readonly number[] | null;
  /** The likeliest class of each pixel is taken, and not what the model gives for each class. */
  readonly segments?: boolean;
  /** It says how probable each class is. */
  readonly probabilities?: boolean;
  take(rows: readonly PredictedColumn[]): void;
  /** Runs between batches and while data is awaited. */
  poll(done: number): Promise<void> | void;
}

const WAIT_MS = 50;

/** A rank takes whole batches, the same whatever the number of ranks, so the bits are the same. */
export function shareOf(length: number, batchSize: number, rank: number, world: number): SampleRange {
  const batches = Math.ceil(length / batchSize);
  const at = (rank: number) => Math.min(length, Math.floor(rank * batches / world) * batchSize);
  return { from: at(rank), end: at(rank + 1) };
}

async function predictSamples(
  source: Source,
  { from, end }: SampleRange,
  job: PredictOptions,
): Promise<void> {
  const { pass, feed, batchSize, targets, relabel = null, segments, probabilities, take, poll } = job;
  if (from === end) return;
  const classes = source.facts.task === "classification";
  pass.model.root.train(false);
  const supply = feed.of(source);
  let requested = from;
  supply.begin(() => {
    const first = requested, count = Math.min(batchSize, end - first);
    requested += count;
    return count <= 0 ? null : [plainPart(Int32Array.from({ length: count }, (_, i) => first + i))];
  });
  for (let done = from; done < end;) {
    while (!supply.ready(WAIT_MS)) await poll(done - from);
    try {
      scope(() =>
        noGrad(() => {
          const batch = supply.take()![0], { input } = batch;
          const count = input.shape[0], at = Int32Array.from({ length: count }, (_, i) => done + i);
          const ids = at.map((place) => source.indices?.[place] ?? place);
          pass.begin?.(done, ids);
          const [answer, others] = tensorList(autocast(pass.cast, pass.onGpu, () => answersTo(pass, input)));
          const own = pass.loss.answer?.(upcast(answer)) ?? answer;
          const output = source.restore?.(own, at, shiftedParts(pass.loss)) ?? own;
          const members = others && restoredMembers(source, others, at);
          const target = targets ? ownTargets(source, batch, at) : batch.target;
          take([
            { name: "id", shape: [], values: ids },
            ...(segments ? [likeliestPixels(output)] : numbersOf(output, pass.loss)),
            ...(members ? [floats("members", members)] : []),
            ...(classes ? likeliest(output) : []),
            ...(probabilities && (classes || segments) ? [sharesOf(output)] : []),
            ...(targets && !source.facts.targetless
              ? [classes && !isFloating(target.dtype) ? labels(target, relabel) : floats("target", target)]
              : []),
          ]);
          done += count;
        })
      );
    } catch (error) {
      throw evaluationOutOfMemory(error, batchSize);
    }
    supply.ahead();
    await poll(done - from);
  }
}

/** [samples, members, targets, ...] */
function restoredMembers(source: Source, members: Tensor, at: Int32Array): Tensor {
  if (!source.restore) return members;
  const [rows, count, targets, ...map] = members.shape;
  const parts = new Array<boolean>(count).fill(true);
  return reshape(source.restore(reshape(members, [rows, count * targets, ...map]), at, parts), members.shape);
}

function floats(name: string, rows: Tensor): PredictedColumn {
  const wide = upcast(rows), { buffer } = readBytes(wide);
  return {
    name,
    shape: rows.shape.slice(1),
    values: wide.dtype === "f64" ? new Float64Array(buffer) : new Float32Array(buffer),
  };
}

/** A normal distribution is its mean and its standard deviation. */
function numbersOf(output: Tensor, { parts = [], point = 0, logVariance }: Loss): PredictedColumn[] {
  if (logVariance === undefined) return [floats("prediction", output)];
  const count = output.shape[1] / parts.length;
  const part = (i: number) => upcast(narrow(output, 1, i * count, count));
  return [floats("prediction", part(point)), floats("std", exp(scale(part(logVariance), 0.5)))];
}

const labels = (target: Tensor, relabel: readonly number[] | null): PredictedColumn => ({
  name: "target",
  shape: target.shape.slice(1),
  values: Int32Array.from(toNumbers(target), (label) => relabel ? relabel[label] ?? -1 : label),
});

function likeliestPixels(output: Tensor): PredictedColumn {
  const label = output.shape[1] === 1
    ? gt(output, constant(0, output.dtype, output.device))
    : argmax(output, 1);
  const whole = toDtype(label, "i32");
  return {
    name: "label",
    shape: output.shape.slice(2),
    values: new Int32Array(readBytes(whole).buffer),
  };
}

function sharesOf(output: Tensor): PredictedColumn {
  const logits = toDtype(output, "f32");
  const both = output.shape[1] === 1 ? cat([zerosLike(logits), logits], 1) : logits;
  return floats("probabilities", softmax(both, 1));
}

/** A single logit has the classes 0 and 1, as in the loss bce. */
function likeliest(output: Tensor): PredictedColumn[] {
  const logits = reshape(toDtype(output, "f32"), [output.shape[0], -1]);
  const some = (label: Float64Array, probability: Float64Array): PredictedColumn[] => [
    { name: "label", shape: [], values: Int32Array.from(label) },
    { name: "probability", shape: [], values: Float32Array.from(probability) },
  ];
  if (logits.shape[1] === 1) {
    const ones = toNumbers(logits).map((logit) => 1 / (1 + Math.exp(-logit)));
    return some(ones.map((p) => p >= 0.5 ? 1 : 0), ones.map((p) => Math.max(p, 1 - p)));
  }
  const shares = softmax(logits, 1);
  const label = toNumbers(argmax(shares, 1));
  const all = toNumbers(shares), count = logits.shape[1];
  return some(label, label.map((one, i) => all[i * count + one]));
}
