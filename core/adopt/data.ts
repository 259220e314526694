// The settings that read the script's data. What watch/hpctrain_adopt/known.py takes it for is believed where our own reader gives the
// script's samples, to the bit; else there is a copy, or a file that reads it by Python.
import { join } from "../../deps/path.ts";
import { readBytes } from "../../ffi/make.ts";
import type { Tensor } from "../../ffi/tensor.ts";
import { messageOf } from "../base/errors.ts";
import { formatBytes, formatPlural } from "../base/format.ts";
import { loadDataReader, openData, type Opened } from "../data/open/open.ts";
import { batchOf, plainPart, type Source } from "../data/source/source.ts";
import { resolveSettings } from "../settings/resolve.ts";
import { openDevice } from "../train/device.ts";
import { type Ends, type Seen, type SeenData, targetsOf } from "./seen.ts";
import type { Adopted } from "./settings.ts";

export interface AdoptedData {
  /** Empty where the data was not moved over. */
  readonly settings: readonly Adopted[];
  /** One line for people. */
  readonly said: string;
  /** The samples come without draws, so that the script's first batches can be made of them. */
  readonly repeats: boolean;
}

/** Inputs that the script draws are not in its data. */
function rolesOf(seen: Seen): { features: string[]; targets: string[] } {
  const names = seen.inputs.filter(({ drawn }) => !drawn).map(({ name }) => name), targets = targetsOf(seen);
  return { features: names.filter((name) => !targets.includes(name)), targets };
}

/** `python` reads the samples that are left where they are. */
export async function adoptedData(out: string, seen: Seen, python: string): Promise<AdoptedData> {
  const { data } = seen, from = seen.where.loader ?? "";
  const nothing = (why: string): AdoptedData => ({
    settings: [],
    said: `not moved over: ${why}`,
    repeats: false,
  });
  const of = (path: string, value: Adopted["value"]): Adopted => ({ path: `data.${path}`, value, from });
  if (seen.fixed.length > 0 && !seen.inputs.some(({ name }) => name !== "step")) {
    const settings = [
      of("data_path", join(out, "steps.npz")),
      of("features", "step"),
      of("validation_split", 0),
    ];
    return {
      settings,
      said: `${seen.fixed.join(", ")} never change and are parts of the program`,
      repeats: false,
    };
  }
  const order = data.shuffle ? [] : [of("shuffle", false)];
  let doubt = "";
  if (data.known) {
    const settings = [...knownSettings(seen, data.known, of), ...order];
    const { why, validation, whole } = await compared(out, seen, data.known, settings);
    if (why === null) {
      const tokens = data.known.context === undefined
        ? []
        : [{ path: "model.context", value: data.known.context, from: "the first batch" }];
      return {
        settings: [...settings, ...(whole ? [of("validation_split", 0)] : []), ...tokens],
        said: `${data.known.name}, read here as it lies: ${data.known.settings.data_path}${validation}`,
        repeats: tokens.length === 0 && !data.random,
      };
    }
    doubt = `${data.known.name} is read otherwise here (${why}); `;
  }
  const plain = [of("normalise", "none")];
  const validates = data.validation ? [] : [of("validation_split", 0)];
  if (data.copied) {
    const { features, targets } = rolesOf(seen);
    const partOf = (part: string) => join(out, "data", part) + data.copied!.file;
    const own = data.validation ? [of("validation_path", partOf("val"))] : validates;
    return {
      settings: [
        ...[of("data_path", partOf("train")), ...own, of("features", features.join(","))],
        ...(targets.length > 0 ? [of("targets", targets.join(","))] : []),
        ...[...plain, ...order],
      ],
      said: `copied to ${join(out, "data")}: ${formatPlural(data.samples!, "sample")}${
        data.validation ? ` and ${data.validation.samples} to validate with` : ""
      }, ${formatBytes(data.copied.bytes)}`,
      repeats: true,
    };
  }
  if (!data.around) return nothing(doubt + data.why);
  const why = data.random ? "its samples are drawn again each time" : data.why;
  return {
    settings: [of("code", data.around), of("python", python), ...validates, ...plain, ...order],
    said: `${doubt}${why === "" ? "" : `${why}; `}read by Python in ${data.around}`,
    repeats: false,
  };
}

type Setting = (path: string, value: Adopted["value"]) => Adopted;

function knownSettings(seen: Seen, { settings }: NonNullable<SeenData["known"]>, of: Setting): Adopted[] {
  const { columns, augment = "", ...rest } = settings, { features, targets } = rolesOf(seen);
  const named = (names: readonly string[]) => names.flatMap((name) => columns?.[name] ?? []).join(",");
  return [
    ...Object.entries(rest).map(([path, value]) => of(path, value)),
    ...(columns ? [of("features", named(features))] : []),
    ...(columns && targets.length > 0 ? [of("targets", named(targets))] : []),
    ...(augment === "" ? [] : [of("augment", augment)]),
    ...(/\bNormalize\(/.test(augment) ? [] : [of("normalise", "none")]),
  ];
}

interface Compared {
  /** Why our own reader's samples are not the script's; null where they are. */
  readonly why: string | null;
  /** Said of those to validate with; empty where they are the script's. */
  readonly validation: string;
  /** Nothing is held out of the samples to train with. */
  readonly whole: boolean;
}

async function compared(
  out: string,
  seen: Seen,
  known: NonNullable<SeenData["known"]>,
  settings: readonly Adopted[],
): Promise<Compared> {
  const no = { validation: "", whole: false };
  try {
    const own = settings.some(({ path }) => path === "data.validation_path") || known.file !== undefined;
    const first = await opened(out, known, settings);
    // All of the script's samples train, where no files of their own validate.
    const whole = !own && first.divided === undefined;
    const { train, val } = whole
      ? await opened(out, known, [...settings, { path: "data.validation_split", value: 0, from: "" }])
      : first;
    if (known.file !== undefined) {
      return { ...no, why: differsFromFile(batchOf(train, plainPart([0, 1, train.length - 1]))) };
    }
    const { samples, ends, validation } = seen.data;
    const why = differsFrom(train, samples!, ends!, seen);
    if (why !== null || !validation) return { ...no, why, whole };
    const other = val && validation.ends ? differsFrom(val, validation.samples, validation.ends, seen) : null;
    const isSame = val !== null && validation.ends !== undefined && other === null;
    return {
      ...{ why, whole },
      validation: isSame ? "" : `; it validates otherwise${other === null ? "" : ` (${other})`}`,
    };
  } catch (error) {
    return { ...no, why: messageOf(error) };
  }
}

async function opened(
  out: string,
  { context }: NonNullable<SeenData["known"]>,
  settings: readonly Adopted[],
): Promise<Opened> {
  const { config } = resolveSettings({
    argv: [
      ...settings.map(({ path, value }) => `--set=${path}=${value}`),
      ...[`--model=${join(out, "model.pt2")}`, "--device=cpu", "--num-workers=0"],
      ...(context === undefined ? [] : [`--context=${context}`]),
    ],
    env: {},
  });
  openDevice(config);
  await loadDataReader(config.data);
  return openData(config.data, { ...config.training, plain: true }, config.model);
}

function differsFrom(source: Source, samples: number, { ids, fields }: Ends, seen: Seen): string | null {
  if (source.length !== samples) return `${formatPlural(source.length, "sample")} in place of ${samples}`;
  const { features, targets } = rolesOf(seen), batch = batchOf(source, plainPart(ids));
  const pairs = [
    ...features.map((name) => [name, batch.input] as const),
    ...targets.map((name) => [name, batch.target] as const),
  ];
  for (const [name, tensor] of pairs) {
    const why = differs(tensor, fields[name]);
    if (why !== null) return `its ${name} has ${why}`;
  }
  return null;
}

const SHORT: Readonly<Record<string, string>> = {
  float32: "f32",
  int64: "i64",
  uint8: "u8",
  int32: "i32",
  bool: "bool",
};

function differs(
  tensor: Tensor,
  { shape, dtype, bytes }: Ends["fields"][string],
): string | null {
  const sides = (all: readonly number[]) => `[${all.slice(1).join(", ")}]`;
  if (sides(tensor.shape) !== sides(shape)) {
    return `the sides ${sides(tensor.shape)} in place of ${sides(shape)}`;
  }
  if (tensor.dtype !== (SHORT[dtype] ?? dtype)) return `${tensor.dtype} in place of ${dtype}`;
  const theirs = Uint8Array.from(atob(bytes), (letter) => letter.charCodeAt(0)), ours = readBytes(tensor);
  return ours.length === theirs.length && ours.every((byte, i) => byte === theirs[i]) ? null : "other values";
}

/** Windows begin where the seed says: each one's targets are its next tokens. */
function differsFromFile({ input, target }: { input: Tensor; target: Tensor }): string | null {
  const [x, y] = [input, target].map((t) => new BigInt64Array(readBytes(t).slice().buffer));
  const length = input.shape[1];
  const follows = x.every((_, i) => i % length === length - 1 || x[i + 1] === y[i]);
  return follows ? null : "targets that are not the next tokens";
}
