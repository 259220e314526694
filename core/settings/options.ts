// Reads a command's own options (--json, --verify), and names what to type instead of flags of other
// programs.
import { UserError } from "../base/errors.ts";
import { didYouMean } from "../base/suggest.ts";
import { TRACKS } from "./sections/run.ts";

export interface OptionSpec {
  /** A list takes all words up to the next flag, and may be given more than once. */
  readonly kind: "bool" | "text" | "list";
  readonly help: string;
  readonly value?: string;
  /** A text has this one where the flag stands without a value. */
  readonly alone?: string;
}

/** Where options were not given, a bool is false, a text undefined, and a list empty. */
type Options<S extends Record<string, OptionSpec>> = {
  [K in keyof S]: ValueOf<S[K]["kind"]>;
};
type ValueOf<Kind extends OptionSpec["kind"]> = [Kind] extends ["bool"] ? boolean
  : [Kind] extends ["list"] ? readonly string[]
  : string | undefined;
type Value = boolean | string | string[] | undefined;

const UNGIVEN: Readonly<Record<OptionSpec["kind"], () => Value>> = {
  bool: () => false,
  text: () => undefined,
  list: () => [],
};

/**
 * Reads `--name`, `--no-name`, `--name value` and `--name=value`, in any order with positionals; all after
 * `--` is positional.
 */
export function parseOptions<const S extends Record<string, OptionSpec>>(
  argv: readonly string[],
  spec: S,
  usage: string,
): { options: Options<S>; positionals: string[] } {
  const options: Record<string, Value> = {};
  for (const name of Object.keys(spec)) options[name] = UNGIVEN[spec[name].kind]();
  const positionals: string[] = [];
  const words = [...argv];
  for (let word = words.shift(); word !== undefined; word = words.shift()) {
    if (word === "--") return { options: options as Options<S>, positionals: [...positionals, ...words] };
    if (!looksLikeFlag(word)) {
      positionals.push(word);
      continue;
    }
    const { name, value } = splitFlag(word);
    const negated = name.startsWith("no-") && spec[name.slice(3)]?.kind === "bool";
    const option = Object.hasOwn(spec, name) ? spec[name] : undefined;
    if (negated) options[name.slice(3)] = noValue(name, value, usage) && false;
    else if (!option || !word.startsWith("--")) throw unknownFlag(word, Object.keys(spec), usage);
    else if (option.kind === "bool") options[name] = noValue(name, value, usage);
    else {
      const isAlone = option.alone !== undefined && looksLikeFlag(words[0] ?? "--");
      const first = value ?? (isAlone ? option.alone : undefined) ??
        takeValue(name, words, `${option.value ?? "a value"}. Usage: ${usage}`);
      if (option.kind === "text") options[name] = first;
      else (options[name] as string[]).push(first, ...(value === undefined ? takeWords(words) : []));
    }
  }
  return { options: options as Options<S>, positionals };
}

export function splitOwnOptions(
  argv: readonly string[],
  spec: Readonly<Record<string, OptionSpec>>,
): { own: string[]; rest: string[] } {
  const own: string[] = [], rest: string[] = [];
  for (let i = 0; i < argv.length; i++) {
    const { name, value } = splitFlag(argv[i]);
    const mine = argv[i].startsWith("--") && Object.hasOwn(spec, name);
    (mine ? own : rest).push(argv[i]);
    const takes = mine && spec[name].kind === "text" && value === undefined;
    if (takes && i + 1 < argv.length && !looksLikeFlag(argv[i + 1])) own.push(argv[++i]);
  }
  return { own, rest };
}

/** "-" (standard input) and negative numbers are no flags. */
export function looksLikeFlag(word: string): boolean {
  return word.length > 1 && word.startsWith("-") && !/^-\.?\d/.test(word);
}

/** torchrun's and Hugging Face's flags have underscores. */
export function splitFlag(word: string): { name: string; value: string | undefined } {
  const text = word.replace(/^--?/, ""), at = text.indexOf("=");
  const typed = at < 0 ? text : text.slice(0, at);
  return { name: typed.replaceAll("_", "-"), value: at < 0 ? undefined : text.slice(at + 1) };
}

export function takeValue(name: string, words: string[], expected: string): string {
  const word = looksLikeFlag(words[0] ?? "--") ? undefined : words.shift();
  if (word !== undefined) return word;
  throw new UserError("usage", `--${name} needs ${expected.replace(/\.?$/, ".")}`);
}

function takeWords(words: string[]): string[] {
  const end = words.findIndex(looksLikeFlag);
  return words.splice(0, end < 0 ? words.length : end);
}

export function unknownFlag(word: string, known: readonly string[], usage: string): UserError {
  const name = splitFlag(word).name;
  const instead = insteadOf(name);
  const hint = instead ? ` ${instead}` : didYouMean(`--${name}`, known.map((flag) => `--${flag}`));
  return new UserError("usage", `Unknown flag ${word.split("=")[0]}.${hint} Usage: ${usage}`);
}

function noValue(name: string, value: string | undefined, usage: string): true {
  if (value === undefined) return true;
  throw new UserError("usage", `--${name} takes no value, but got "${value}". Usage: ${usage}`);
}

// These flags of other programs mean no setting of ours. Those that do mean one, one to one, are among the
// `spellings` of that setting.

const RANKS =
  "Ranks are started by a launcher: `hpctrain launch -n 4 -- FLAGS` on this machine, `hpctrain sbatch --gpus-per-node 4` in a job.";
const OF_LAUNCH = "It is a flag of launch: `hpctrain launch -n 4 ... -- FLAGS`.";
const STRATEGY =
  "Ranks share their gradients as ddp does, without a flag; --zero 1 also shares the optimizer's state (ZeRO, stage 1).";
const EVALUATIONS =
  "How often the validation data is evaluated has a unit: --eval-interval 500steps, 2ep or 10min (1ep by default).";
const OF_SBATCH =
  "It is sbatch's own: it stands before the file, as in `sbatch --export=ALL,EPOCHS=200 FILE`; `hpctrain sbatch` passes it on " +
  "as --sbatch-arg=--OPTION.";

const OF_STRANGERS =
  "--sandbox is for commands that read a stranger's files in one process: train, eval, predict, generate, export, pack, " +
  "convert and inspect.";

const LOGGERS = "A W&B run is always written: --no-wandb leaves it out, --wandb-online uploads it too. " +
  `--track ${TRACKS.join()} writes these beside it.`;

const INSTEAD: Readonly<Record<string, string>> = {
  "nproc-per-node": RANKS,
  "num-processes": RANKS,
  devices: RANKS,
  gpus: RANKS,
  "num-gpus": RANKS,
  "n-gpus": RANKS,
  "node-rank": OF_LAUNCH,
  "machine-rank": OF_LAUNCH,
  rendezvous: OF_LAUNCH,
  "rdzv-endpoint": OF_LAUNCH,
  "rdzv-backend": OF_LAUNCH,
  "rdzv-id": OF_LAUNCH,
  standalone: OF_LAUNCH,
  "max-restarts": OF_LAUNCH,
  strategy: STRATEGY,
  fsdp: STRATEGY,
  deepspeed: STRATEGY,
  "warmup-ratio": "Warm-up is a duration: --warmup 500steps or --warmup 1ep.",
  "warmup-epochs": "Warm-up is a duration: --warmup 5ep.",
  "eval-steps": EVALUATIONS,
  "eval-strategy": EVALUATIONS,
  "evaluation-strategy": EVALUATIONS,
  "val-check-interval": EVALUATIONS,
  "greater-is-better":
    "--monitor-mode max says that the most is best; it is known of r2, accuracy and their like.",
  "save-strategy":
    "A checkpoint is saved at the end of each epoch: --save-interval 500steps or 30min saves more often, 5ep less often.",
  "save-total-limit":
    "--keep-last N keeps the last N checkpoints of epochs, --keep-best N those of the best evaluations; the latest is always there.",
  sandbox: OF_STRANGERS,
  "report-to": LOGGERS,
  logger: LOGGERS,
  "fast-dev-run": "--preset debug trains for seconds; --max-steps 10 ends any run early.",
  "limit-train-batches": "Give it in samples: --train-samples N.",
  "max-time":
    "--time is the limit of a job (`hpctrain sbatch`); the run in it stops in time, with a checkpoint.",
  dataset:
    "Data is named by its place, --data-path DIR, and where that does not tell, by its kind: --data-type KIND.",
  "dataset-name":
    "Data is named by its place, --data-path DIR, and where that does not tell, by its kind: --data-type KIND.",
  checkpoint: "--resume FILE goes on with a run, --init-from FILE takes the first weights from one.",
  debug:
    "It is short for --preset debug, where there is something to train. --trace-errors says where an error came from.",
  export: OF_SBATCH,
  dependency: OF_SBATCH,
  array: OF_SBATCH,
  begin: OF_SBATCH,
  wrap: OF_SBATCH,
};

export const insteadOf = (flag: string): string | null => Object.hasOwn(INSTEAD, flag) ? INSTEAD[flag] : null;
