// The executable: argv -> command -> exit code.
import { type Command, findCommand } from "./commands/mod.ts";
import { EXIT, refused, UserError } from "./core/base/errors.ts";
import { withoutSecrets } from "./core/base/secrets.ts";
import { cleanConsole } from "./core/base/terminal.ts";

export async function main(given: string[]): Promise<number> {
  const argv = traceErrors(given);
  const [first, ...rest] = argv;
  if (first === undefined || (rest.length === 0 && ["--help", "-h", "help"].includes(first))) {
    console.log((await import("./commands/help.ts")).guide());
    return EXIT.done;
  }
  if (first === "--version" || first === "-V") {
    console.log(`hpctrain ${(await import("./core/base/version.ts")).VERSION}`);
    return EXIT.done;
  }
  if (first === "help") return await main([...rest, "--help"]);
  const command = findCommand(first.startsWith("-") ? "train" : first);
  if (!command) throw await unknownCommand(first, rest);
  const words = first.startsWith("-") ? argv : rest;
  const help = words.slice(0, words.includes("--") ? words.indexOf("--") : undefined)
    .filter((word) => ["--help", "-h", "--help-all"].includes(word));
  const loaded = await command.load(), { run, ownHelp } = loaded;
  if (help.length === 0) return await (asksForSandbox(loaded, words) ? inSandbox(loaded, words) : run(words));
  if (ownHelp) return await run(["--help"]);
  const { commandHelp } = await import("./commands/help.ts");
  console.log(await commandHelp(command, help.includes("--help-all")));
  return EXIT.done;
}

const asksForSandbox = ({ writes }: Command, words: readonly string[]): boolean =>
  writes !== undefined && words.includes("--sandbox");

/** In a process that was not confined it does not come back: this program starts again in its place. */
async function inSandbox(command: Command, words: string[]): Promise<number> {
  const { aboutSandbox, enterSandbox, leaveSandbox } = await import("./commands/run/sandbox.ts");
  enterSandbox(command, words);
  try {
    return await command.run(words);
  } catch (error) {
    const about = aboutSandbox(error);
    if (about !== "") console.error(`hpctrain: ${about}`);
    throw error;
  } finally {
    leaveSandbox();
  }
}

/** Commands of other programs that users have in their fingers, and ours. */
const INSTEAD: Readonly<Record<string, string>> = { "wandb sync": "sync-wandb" };

async function unknownCommand(name: string, words: readonly string[]): Promise<UserError> {
  const { COMMANDS } = await import("./commands/mod.ts");
  const { didYouMean } = await import("./core/base/suggest.ts");
  const { quoteAll } = await import("./core/base/shell.ts");
  const names = COMMANDS.map((command) => command.name);
  const ours = INSTEAD[`${name} ${words[0]}`];
  if (ours) {
    const rest = quoteAll(words.slice(1));
    return new UserError(
      "usage",
      `"${name} ${words[0]}" is another program's; here it is: hpctrain ${[ours, rest].join(" ").trim()}.`,
    );
  }
  const hint = /\.ya?ml$/i.test(name)
    ? ` To train with this file: hpctrain --config ${name}.`
    : didYouMean(name, names) || ` The commands are ${names.join(", ")}.`;
  return new UserError("usage", `Unknown command "${name}".${hint}`);
}

/** Takes --trace-errors out, which is about every command, and those that it starts. */
function traceErrors(argv: string[]): string[] {
  const end = argv.includes("--") ? argv.indexOf("--") : argv.length;
  const kept = argv.filter((word, i) => i > end || !/^--trace[-_]errors$/.test(word));
  if (kept.length < argv.length) Deno.env.set("HPCTRAIN_TRACE_ERRORS", "1");
  return kept;
}

/** A user's mistake is one sentence, and so is what the system has refused; anything else is ours, and comes with its stack. */
function report(cause: unknown): number {
  if (cause instanceof Error && isOfPrinting(cause)) {
    console.error(
      `hpctrain: Standard output can't be written: ${cause.message.replace(/ \(os error.*/, "")}.`,
    );
    return EXIT.usage;
  }
  const error = refused(cause, "environment");
  if (error instanceof UserError) {
    console.error(`hpctrain: ${withoutSecrets(error.message)}`);
    if (Deno.env.get("HPCTRAIN_TRACE_ERRORS")) console.error(withoutSecrets(Deno.inspect(error))); // its stack, and the chain of causes
    else if (Deno.args.includes("--debug")) {
      console.error(
        "hpctrain: --debug is the preset debug. --trace-errors says where an error came from.",
      );
    }
    return error.exitCode;
  }
  const stack = error instanceof Error ? error.stack ?? error.message : String(error);
  console.error(`internal: ${withoutSecrets(stack)}`);
  return EXIT.internal;
}

/** A full disk behind a redirection: all that tells is where in the runtime it came up. */
function isOfPrinting({ message, stack = "" }: Error): boolean {
  return /\(os error \d+\)/.test(message) && /console\.log/.test(stack.split("\n", 4).join());
}

/** Time for the first task of a step to say it, and for srun to end the others: tasks of a busy node begin seconds apart. */
const TURN_MS = 3000;

/**
 * The first rank of a step says what all of them find before they meet; the others say it where that one goes on. It stays
 * until they have come so far: srun ends them by a signal, whose code would be the step's.
 */
async function reportInTurn(cause: unknown): Promise<number> {
  const { SLURM_STEP_ID: step = "", SLURM_STEP_NUM_TASKS: tasks = "1", SLURM_PROCID: task } = Deno.env
    .toObject();
  if (!(cause instanceof UserError)) return report(cause);
  if (cause.printedElsewhere) return cause.exitCode;
  if (cause.printedElsewhere === false || !/^\d+$/.test(step) || tasks === "1") return report(cause);
  const first = task === "0", code = first ? report(cause) : cause.exitCode;
  const { onSignal } = await import("./ffi/signals.ts");
  const over = await new Promise<boolean>((resolve) => {
    onSignal("SIGTERM", () => resolve(true));
    setTimeout(() => resolve(false), first ? TURN_MS / 2 : TURN_MS);
  });
  return first || over ? code : report(cause);
}

/** As one of the ranks that `hpctrain launch` started in this folder. */
async function mainOfRank(folder: string): Promise<number> {
  const { enterRank, writeEnd: leaveEnd } = await import("./core/ranks/launch/rank.ts");
  enterRank(folder);
  try {
    return leaveEnd(folder, await main(Deno.args));
  } catch (error) {
    return leaveEnd(folder, report(error), error);
  }
}

if (import.meta.main) {
  cleanConsole();
  const folder = Deno.env.get("HPCTRAIN_LAUNCH");
  const code = folder ? await mainOfRank(folder) : await main(Deno.args).catch(reportInTurn);
  (await import("./ffi/libc.ts")).exitQuickly(code);
}
