// A script's first steps, as watch/hpctrain_adopt has seen them.
import { join } from "../../deps/path.ts";
import { UserError } from "../base/errors.ts";

export interface Seen {
  readonly steps: number;
  readonly torch: string;
  /** These parts could not be read; each has the script's line. */
  readonly odd: readonly { readonly what: string; readonly where: string }[];
  /** The script's line of each part: model, loss, optimizer, scheduler, loader, clip, amp, dropout. */
  readonly where: Readonly<Record<string, string>>;
  /** Why there is nothing else. */
  readonly error?: string;
  readonly model: string;
  readonly parameters: number;
  readonly inputs: readonly {
    readonly name: string;
    readonly shape: readonly number[];
    readonly dtype: string;
    /** The program draws it by itself. */
    readonly drawn: boolean;
  }[];
  /** The functions that the loss is made by; the model's class stands for its call. */
  readonly loss_of: readonly string[];
  /** Dropout was off while the steps were watched. */
  readonly draws: boolean;
  /** Why torch.export refused the program of the steps (without dropout) and of the model; null where it did not. */
  readonly why: { readonly quiet: string | null; readonly program: string | null };
  /** The steps from the first on whose batches are as many and as large as the first's. */
  readonly compared: number;
  /** Micro-batches of a step. */
  readonly micro: number;
  readonly batch: number;
  /** Each micro-batch has one, or one for each turn. */
  readonly losses: readonly (readonly number[])[];
  /** The rate of each group of parameters, step by step. */
  readonly rates: readonly (readonly number[])[];
  readonly norms: readonly number[];
  readonly clip: number | null;
  readonly clip_value: number | null;
  /** Images, or the weights that see them, lie in memory so. */
  readonly channels_last: boolean;
  readonly seed: number | null;
  /** The loops around its first step. */
  readonly length: { readonly epochs?: number; readonly steps?: number; readonly where: string } | null;
  /** Inputs that never change and are a part of the program; "step" stands for a batch then. */
  readonly fixed: readonly string[];
  /** A class below 0 that stands for no class. */
  readonly ignored: number | null;
  readonly amp: string | null;
  readonly optimizer: string;
  /** The turns that optimizers take, in their order; empty where there is one optimizer. */
  readonly turns: readonly Turn[];
  /** Functions that move weights behind each step, such as a teacher's. */
  readonly follows: readonly string[];
  readonly groups: readonly Group[];
  readonly schedulers: readonly Readonly<Record<string, unknown>>[];
  readonly loader: Loader | null;
  readonly data: SeenData;
  /** Seconds of some further steps, which were not watched. */
  readonly times: readonly number[];
  readonly threads: number;
  readonly device: string;
}

export interface SeenData {
  /** These settings would read it, if it is what it is taken for. */
  readonly known: {
    readonly name: string;
    readonly settings: {
      readonly data_path: string;
      readonly type?: string;
      readonly augment?: string;
      readonly token_type?: string;
      readonly windows?: string;
      readonly validation_path?: string;
      readonly resize?: number;
      readonly centre_crop?: number;
      /** Each of the program's inputs has some. */
      readonly columns?: Readonly<Record<string, readonly string[]>>;
    };
    /** A file of tokens is read in windows of so many. */
    readonly context?: number;
    readonly file?: string;
  } | null;
  /** Why it can't be moved over; "" where it can. */
  readonly why: string;
  readonly shuffle: boolean;
  readonly samples?: number;
  /** Batches of an epoch. */
  readonly per_epoch?: number;
  readonly validation?: { readonly samples: number; readonly where: string; readonly ends?: Ends } | null;
  readonly random?: boolean;
  /** A file for --data. */
  readonly around?: string;
  /** `file` is where whole numbers lie, such as tokens: a folder of files is read as floating ones. */
  readonly copied?: { readonly bytes: number; readonly file: string };
  /** The first two samples and the last, as the model would be given them without what transforms draw. */
  readonly ends?: Ends;
}

export interface Ends {
  readonly ids: readonly number[];
  readonly fields: Readonly<
    Record<string, { readonly shape: readonly number[]; readonly dtype: string; readonly bytes: string }>
  >;
}

export interface Group extends Readonly<Record<string, unknown>> {
  readonly lr: number;
  /** Names of parameters; null for one that is not the model's. A whole model of several is NAME.*. */
  readonly params: readonly (string | null)[];
  /** So many parameters. */
  readonly size: number;
  readonly clip_norm?: number;
}

interface Turn {
  readonly name: string;
  readonly optimizers: readonly { readonly type: string; readonly where: string }[];
}

interface Loader {
  readonly batch_size: number | null;
  readonly drop_last: boolean;
  readonly shuffle: boolean;
  readonly dataset: string;
  readonly samples: number | null;
  readonly root: string;
  readonly transform: string;
}

/** Losses that take turns have no input that is the target. */
export const targetsOf = ({ inputs, turns }: Pick<Seen, "inputs" | "turns">): string[] =>
  turns.length > 0
    ? []
    : inputs.map(({ name }) => name).filter((name) => /^(targets?|labels?|y|y_true)(_\d+)?$/.test(name));

export function readSeen(folder: string): Seen | null {
  try {
    const text = Deno.readTextFileSync(join(folder, "seen.json"));
    return text === "" ? null : JSON.parse(text); // one that ended while it wrote has claimed the name
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return null;
    throw error;
  }
}

/** Refuses what nothing can be made of. */
export function checkSeen({ error, why, odd, turns, optimizer, where }: Seen, out: string): void {
  const lines = odd.map(({ what, where }) => `\n  ${where === "" ? "" : `${where}: `}${what}`).join("");
  if (error !== undefined) throw new UserError("usage", `${error}.${lines}`);
  const other = turns.flatMap(({ optimizers }) => optimizers).find(({ type }) => type !== optimizer);
  if (other) {
    throw new UserError(
      "usage",
      `The script has the optimizer ${other.type} (${other.where}) beside ${optimizer} (${where.optimizer}): those that take turns here ` +
        `are of one type. The models with their losses are in ${
          join(out, "model.pt2")
        }: train them with one, --optimizer ${optimizer.toLowerCase()}.`,
    );
  }
  if (why.program === null) return;
  throw new UserError(
    "usage",
    `torch.export could not write the model with its loss: ${why.program}. What was seen of the rest is in ${
      join(out, "seen.json")
    }; mend what it names in forward, or write forward as docs/guides/your-pytorch-model.md says.${lines}`,
  );
}
