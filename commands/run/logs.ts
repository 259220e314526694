// `hpctrain logs`: what a run or a job has printed, and with -f what it goes on to print.
import { isFile } from "../../core/base/files.ts";
import { delay } from "../../deps/async.ts";
import { clean } from "../../core/base/terminal.ts";
import { join } from "../../deps/path.ts";
import { findRunOrJob, outputOfJob } from "../../core/cluster/jobs.ts";
import { errBeside } from "../../core/cluster/script/job.ts";
import { parseOptions } from "../../core/settings/options.ts";
import { EXIT, UserError } from "../../core/base/errors.ts";
import { OPTIONS } from "../logs.ts";

const USAGE = "hpctrain logs [RUN | JOB] [-f] [--rank K] [--save-dir DIR]";

const POLL_MS = 500;
const CHUNK = 64 * 1024;
/** Letters of a job's errors that are shown. */
const LAST = 16 * 1024;

export async function logs(argv: string[]): Promise<number> {
  const words = argv.map((word) => word === "-f" ? "--follow" : word);
  const { options, positionals } = parseOptions(words, OPTIONS, USAGE);
  const saveDir = options["save-dir"] ?? ".";
  const { folder, job } = await findRunOrJob(positionals[0], saveDir);
  const path = fileOf(folder, job, saveDir, options.rank ?? "0");
  using file = Deno.openSync(path);
  tellErrors(path);
  const shrunk = () => Deno.statSync(path).size < file.seekSync(0, Deno.SeekMode.Current);
  for (;;) {
    await copy(file);
    if (!options.follow) return EXIT.done;
    await delay(POLL_MS);
    if (shrunk()) file.seekSync(0, Deno.SeekMode.Start);
  }
}

/** A job may have a file of its own for what it writes to stderr (cluster.err_file): there the reason is if it failed. */
function tellErrors(path: string): void {
  const errors = errBeside(path);
  if (errors === path || !isFile(errors)) return;
  const text = Deno.readTextFileSync(errors).trimEnd();
  if (text !== "") console.error(`${errors}:\n${text.slice(-LAST)}\n${path}:`);
}

/** A rank's own file, else what the scheduler has caught of the job. */
function fileOf(folder: string | null, job: string | null, saveDir: string, rank: string): string {
  const own = folder === null ? null : join(folder, `rank-${rank}.log`);
  if (own && isFile(own)) return own;
  const ofJob = job === null ? null : outputOfJob(saveDir, job);
  if (ofJob) return ofJob;
  const where = own ? `${own} is not there` : `nothing below ${join(saveDir, "logs")} is of the job ${job}`;
  const ranks = folder === null
    ? []
    : [...Deno.readDirSync(folder)].map(({ name }) => name).filter((name) => /^rank-\d+\.log$/.test(name));
  const hint = ranks.length > 0
    ? `There are ${ranks.sort().slice(0, 8).join(", ")}.`
    : "Its events are shown by: hpctrain watch.";
  throw new UserError("usage", `There is no output to show: ${where}. ${hint}`);
}

/** As it is, but for a terminal: what a rank has printed may hold anything. */
async function copy(file: Deno.FsFile): Promise<void> {
  const chunk = new Uint8Array(CHUNK);
  if (Deno.stdout.isTerminal()) {
    const decoder = new TextDecoder();
    for (let got = await file.read(chunk); got !== null; got = await file.read(chunk)) {
      writeAll(new TextEncoder().encode(clean(decoder.decode(chunk.subarray(0, got), { stream: true }))));
    }
    return;
  }
  for (let got = await file.read(chunk); got !== null; got = await file.read(chunk)) {
    writeAll(chunk.subarray(0, got));
  }
}

function writeAll(bytes: Uint8Array): void {
  for (let done = 0; done < bytes.length;) done += Deno.stdout.writeSync(bytes.subarray(done));
}
