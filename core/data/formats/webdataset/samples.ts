// WebDataset: members of tar files whose names are alike up to the first dot are parts of one sample.
import { basename } from "../../../../deps/path.ts";
import { UserError } from "../../../base/errors.ts";
import type { FileMark } from "../../arrays/rows.ts";
import { markOf, withFiles } from "../../arrays/files.ts";
import { readMembers } from "./tar.ts";
import { filesIn } from "../../arrays/paths.ts";

export const ENDINGS = [".tar"];

/** Where the members of one ending lie, sample by sample; shared memory. */
export interface Members {
  readonly at: Float64Array;
  /** -1 where the sample has no such member. */
  readonly sizes: Float64Array;
}

export interface Samples {
  readonly path: string;
  readonly count: number;
  readonly shards: readonly FileMark[];
  /** The first sample of each shard, and the number of all. */
  readonly starts: readonly number[];
  /** By ending, as the first samples have them. */
  readonly members: ReadonlyMap<string, Members>;
  /** The names in front of the endings. */
  readonly keys: readonly string[];
}

export const shardOf = (starts: readonly number[], sample: number): number => {
  let low = 0, high = starts.length - 2;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (starts[middle] <= sample) low = middle;
    else high = middle - 1;
  }
  return low;
};

/** "a/b.c/0012.seg.png" is the member "seg.png" of the sample "a/b.c/0012". */
const NAME = /^((?:.*\/)?[^./]+)\.([^/]+)$/s;
const MOST_ENDINGS = 1000;

const shardsIn = (path: string): readonly string[] => filesIn(path, ENDINGS) ?? [path];

export function readSamples(path: string): Samples {
  const files = shardsIn(path);
  if (files.length === 0) throw new UserError("data", `The folder ${path} has no .tar files in it.`);
  const keys: string[] = [], starts: number[] = [0];
  const found = new Map<string, { at: number[]; sizes: number[] }>();
  const take = (ending: string, at: number, size: number, shard: string) => {
    const known = found.get(ending) ?? { at: [], sizes: [] };
    found.set(ending, known);
    if (found.size > MOST_ENDINGS) throw noSamples(shard, `members with ${MOST_ENDINGS} endings`);
    const sample = keys.length - 1;
    while (known.at.length < sample) {
      known.at.push(0);
      known.sizes.push(-1);
    }
    if (known.at.length > sample) {
      throw new UserError("data", `${shard}: the sample "${keys[sample]}" has two members "${ending}".`);
    }
    known.at.push(at);
    known.sizes.push(size);
  };
  for (const shard of files) {
    let now: string | null = null, strange = "";
    withFiles((open) => {
      for (const { name, at, size } of readMembers(open(shard))) {
        const [, key, ending] = NAME.exec(name) ?? [];
        if (key === undefined || basename(name).startsWith(".")) {
          strange ||= name;
          continue;
        }
        if (key !== now) keys.push(now = key);
        take(ending.toLowerCase(), at, size, shard);
      }
    });
    if (keys.length === starts.at(-1)) throw noSamples(shard, strange === "" ? "nothing" : strange);
    starts.push(keys.length);
  }
  const members = new Map([...found].map(([ending, { at, sizes }]) => {
    const whole = (values: number[], empty: number) => {
      const all = new Float64Array(new SharedArrayBuffer(8 * keys.length)).fill(empty);
      all.set(values);
      return all;
    };
    return [ending, { at: whole(at, 0), sizes: whole(sizes, -1) }] as const;
  }));
  return { path, count: keys.length, shards: files.map(markOf), starts, members, keys };
}

const noSamples = (shard: string, what: string) =>
  new UserError(
    "data",
    `${shard} has no samples in it, but ${what}: files of one sample have names such as 0001.jpg and 0001.cls. An archive ` +
      `of other data is unpacked first (tar -xf '${shard}').`,
  );

/** A sample without the member ends the run. */
export function checkWhole(
  { shards, starts, keys, path }: Samples,
  ending: string,
  { sizes }: Members,
): void {
  const sample = sizes.indexOf(-1);
  if (sample < 0) return;
  throw new UserError(
    "data",
    `${shards[shardOf(starts, sample)]?.path ?? path}: the sample ${sample} ("${
      keys[sample]
    }") has no member ` +
      `"${ending}", and others have. Choose others with --features and --targets, or leave the sample out of the shards.`,
  );
}
