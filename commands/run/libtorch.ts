// `hpctrain libtorch`: lists, installs and chooses the libtorch to use; installs an MPI where there is none.
import { UserError } from "../../core/base/errors.ts";
import {
  chooseLibtorch,
  findLibtorch,
  type FoundLibtorch,
  noLibtorchSentence,
} from "../../ffi/libraries/find.ts";
import { installLibtorch, installMpich, NEWEST, RELEASES } from "../../ffi/libraries/install.ts";
import { findMpi } from "../../ffi/mpi/find.ts";

const HELP = `hpctrain libtorch: which PyTorch library to use

  hpctrain libtorch list [--json]         what is on this machine: chosen, usable, rejected and why
  hpctrain libtorch install [VERSION]     download PyTorch's CPU library (${
  Object.keys(RELEASES).join(" or ")
}; default ${NEWEST})
  hpctrain libtorch install mpich         download MPICH, by which several ranks on CPUs communicate, with its mpiexec
      --if-missing                        only if nothing usable is here
      --quiet                             no progress lines
  hpctrain libtorch use DIR               remember DIR for later runs

Example: hpctrain libtorch use /opt/pytorch/lib/python3.11/site-packages
`;

/** Returns the exit code. */
export async function libtorch(args: string[]): Promise<number> {
  const [verb = "list", ...rest] = args;
  if (rest.includes("--help") || ["help", "--help", "-h"].includes(verb)) {
    console.log(HELP.trimEnd());
    return 0;
  }
  if (verb === "--json") return list(args);
  if (verb === "list") return list(rest);
  if (verb === "install") return await install(rest);
  if (verb === "use") return use(rest);
  throw usage(`\`hpctrain libtorch\` has no command "${verb}"`);
}

function list(args: string[]): number {
  const { flags } = split(args, ["--json"], 0);
  const found = findLibtorch({ all: true });
  if (flags.has("--json")) console.log(JSON.stringify(found, null, 2));
  else console.log(found.usable.length > 0 ? table(found) : noLibtorchSentence(found.rejected));
  return 0;
}

/** One block a library: the chosen one is marked, and each rejected place has its reason under it. */
export function table({ chosen, usable, rejected }: FoundLibtorch): string {
  const width = Math.max(...usable.map((u) => u.versionText.length));
  const lines = usable.map((u) => {
    const mark = u === chosen ? "*" : " ";
    return `${mark} ${u.versionText.padEnd(width)}  ${u.cuda ? "CUDA" : "CPU "}  ${u.dir}  (${u.from})`;
  });
  if (chosen) lines.push("(* is the one that a run here uses)");
  else lines.push("None of these is used, because the one that was named can't be:");
  if (rejected.length > 0) {
    lines.push(
      "Rejected:",
      ...rejected.map((r) => `  ${r.dir} (${r.from}): ${r.reason}`),
    );
  }
  return lines.join("\n");
}

async function install(args: string[]): Promise<number> {
  const { flags, words } = split(args, ["--if-missing", "--quiet"], 1);
  const say = flags.has("--quiet") ? undefined : (line: string) => console.error(line);
  if (words[0] === "mpich") return await mpich(flags.has("--if-missing"), say);
  if (words[0] && !/^\d/.test(words[0])) {
    throw usage(`\`hpctrain libtorch install\` knows versions of PyTorch, and mpich, but not "${words[0]}"`);
  }
  if (flags.has("--if-missing") && findLibtorch().chosen) return 0;
  const installed = await installLibtorch({ version: words[0], say });
  say?.(`Ready: libtorch ${installed.versionText} in ${installed.dir}`);
  return 0;
}

async function mpich(ifMissing: boolean, say?: (line: string) => void): Promise<number> {
  if (ifMissing && findMpi().chosen) return 0;
  const folder = await installMpich(undefined, say);
  say?.(
    `Ready: MPICH in ${folder}. Start ranks with \`hpctrain launch -n 2 -- ...\` or ${folder}/bin/mpiexec.`,
  );
  return 0;
}

function use(args: string[]): number {
  const { words } = split(args, [], 1);
  if (words.length === 0) throw usage("`hpctrain libtorch use` needs the folder to use");
  const file = chooseLibtorch(words[0]);
  console.log(`Remembered in ${file}. HPCTRAIN_LIBTORCH and --libtorch still come first.`);
  return 0;
}

function split(args: string[], known: string[], atMost: number) {
  const words = args.filter((a) => !a.startsWith("-"));
  const flags = new Set(args.filter((a) => a.startsWith("-")));
  for (const flag of flags) {
    if (!known.includes(flag)) throw usage(`\`hpctrain libtorch\` does not know ${flag} here`);
  }
  if (words.length > atMost) {
    throw usage(`\`hpctrain libtorch\` does not know what to do with "${words[atMost]}"`);
  }
  return { flags, words };
}

function usage(what: string): UserError {
  return new UserError(
    "usage",
    `${what}: expected \`list [--json]\`, \`install [VERSION | mpich] [--if-missing] [--quiet]\` or \`use DIR\`. ` +
      "See `hpctrain libtorch --help`.",
  );
}
