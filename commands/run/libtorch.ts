// `hpctrain libtorch`: lists, installs and chooses the libtorch to use; installs an MPI where there is none.
import { UserError } from "../../core/base/errors.ts";
import { formatBytes } from "../../core/base/format.ts";
import {
  chooseLibtorch,
  findLibtorch,
  type FoundLibtorch,
  type Libtorch,
  noLibtorchSentence,
} from "../../ffi/libraries/find.ts";
import { bundleLibtorch, installBundle, installedFor } from "../../ffi/libraries/bundle.ts";
import { ARCHITECTURES } from "../../ffi/libraries/elf.ts";
import { installLibtorch, installMpich } from "../../ffi/libraries/install.ts";
import { CUDA_RELEASES, NEWEST, RELEASES } from "../../ffi/libraries/releases.ts";
import { BACKENDS } from "../../ffi/gpu/backends.ts";
import { driversCuda } from "../../ffi/machine.ts";
import { resolve } from "../../deps/path.ts";
import { mpiEngine } from "../../core/ranks/engines.ts";

const versionFor = (driver: number) =>
  Object.entries(CUDA_RELEASES).find(([, byArch]) => byArch[Deno.build.arch]?.driver === driver)?.[0] ??
    "not offered here";

const HELP = `hpctrain libtorch: which PyTorch library to use

  hpctrain libtorch list [--json]         what is on this machine: chosen, usable, rejected and why
  hpctrain libtorch install [VERSION]     download PyTorch's CPU library (${
  Object.keys(RELEASES).join(" or ")
}; default ${NEWEST})
  hpctrain libtorch install --cuda [VERSION]
                                          download PyTorch's CUDA libraries, NCCL, cuDNN and the like among them, in
                                          the newest version that this machine's driver serves; on a machine without
                                          a GPU say which: --cuda=13 (PyTorch ${
  versionFor(13)
}) or --cuda=12 (${versionFor(12)})
  hpctrain libtorch bundle FILE.tar       write the installed library to a file, for a cluster without internet
      --libtorch DIR                      that one, not the one that a run here uses
      --arch x86_64,aarch64               those installed for these architectures, in one file
  hpctrain libtorch install FILE.tar      install it from there
  hpctrain libtorch install mpich         download MPICH, by which several ranks on CPUs communicate, with its mpiexec
      --arch aarch64                      all of these: for nodes of another architecture than this machine's
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
  if (verb === "bundle") return await bundle(rest);
  if (verb === "use") return use(rest);
  throw usage(`\`hpctrain libtorch\` has no command "${verb}"`);
}

function list(args: string[]): number {
  const { flags } = split(args, ["--json"], 0);
  const found = findLibtorch({ all: true });
  if (flags.has("--json")) console.log(JSON.stringify(found, null, 2));
  else console.log(found.usable.length > 0 ? libtorchTable(found) : noLibtorchSentence(found.rejected));
  return 0;
}

/** One block a library: the chosen one is marked, and each rejected place has its reason under it. */
export function libtorchTable({ chosen, usable, rejected }: FoundLibtorch): string {
  const width = Math.max(...usable.map((u) => u.versionText.length));
  const lines = usable.map((u) => {
    const mark = u === chosen ? "*" : " ";
    return `${mark} ${u.versionText.padEnd(width)}  ${
      (u.gpu === null ? "CPU" : BACKENDS[u.gpu].words.platform).padEnd(4)
    }  ${u.dir}  (${u.from})`;
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

async function install(typed: string[]): Promise<number> {
  const { architectures, rest: args } = architecturesOf(typed);
  if (architectures.length > 1) {
    throw usage("`hpctrain libtorch install --arch` takes one architecture at a time");
  }
  const [architecture = Deno.build.arch as string] = architectures;
  const own = architecture === Deno.build.arch;
  const given = args.find((word) => word.startsWith("--cuda"));
  const { flags, words } = split(args.filter((word) => word !== given), ["--if-missing", "--quiet"], 1);
  const say = flags.has("--quiet") ? undefined : (line: string) => console.error(line);
  if (words[0] === "mpich") return await mpich(flags.has("--if-missing"), architecture, say);
  if (words[0] && !/^\d+(\.\d+)*$/.test(words[0])) return await fromFile(words[0], architectures[0], say);
  const chosen = flags.has("--if-missing") && own ? findLibtorch().chosen : null;
  if (chosen && (given === undefined || chosen.gpu !== null)) return 0;
  const cuda = given === undefined ? null : cudaOf(given);
  const installed = await installLibtorch({ version: words[0], cuda, architecture, say });
  say?.(`Ready: libtorch ${installed.versionText} in ${installed.dir}`);
  return 0;
}

/** Takes what `--arch` names apart from the other words. */
function architecturesOf(args: readonly string[]): { architectures: string[]; rest: string[] } {
  const at = args.findIndex((word) => /^--arch(=|$)/.test(word));
  if (at < 0) return { architectures: [], rest: [...args] };
  const [, inFlag] = args[at].split("=", 2), value = inFlag ?? args[at + 1] ?? "";
  const architectures = value.split(",");
  const unknown = architectures.find((name) => !ARCHITECTURES.some((known) => known === name));
  if (unknown !== undefined) {
    throw usage(`\`hpctrain libtorch --arch\` takes ${ARCHITECTURES.join(" or ")}, but not "${unknown}"`);
  }
  return { architectures, rest: args.toSpliced(at, inFlag === undefined ? 2 : 1) };
}

/** The flag's own value, or what this machine's driver serves. */
function cudaOf(flag: string): string {
  const [, named] = /^--cuda=(\d+(?:\.\d+)?)$/.exec(flag) ?? [];
  if (named !== undefined) return named;
  if (flag !== "--cuda") throw usage(`\`hpctrain libtorch install\` does not understand ${flag}`);
  const cuda = driversCuda();
  if (cuda !== null) return cuda;
  throw new UserError(
    "environment",
    "No NVIDIA driver is on this machine that says which CUDA it serves. Run this where there is a GPU, or name what " +
      "`nvidia-smi` says there: --cuda=13 or --cuda=12.",
  );
}

async function fromFile(name: string, architecture?: string, say?: (line: string) => void): Promise<number> {
  const file = resolve(name);
  if (!/\.tar(\.\w+)?$/.test(file)) {
    throw usage(
      `\`hpctrain libtorch install\` knows versions of PyTorch, mpich and bundles (FILE.tar), but not "${name}"`,
    );
  }
  say?.(`Unpacking ${file} and comparing its sums`);
  const { versionText, dir } = await installBundle(file, Deno.env.toObject(), architecture);
  say?.(`Ready: libtorch ${versionText} in ${dir}`);
  return 0;
}

async function bundle(typed: string[]): Promise<number> {
  const { architectures, rest: args } = architecturesOf(typed);
  const at = args.indexOf("--libtorch");
  const explicit = at < 0 ? undefined : args[at + 1];
  const { flags, words } = split(args.filter((_, i) => at < 0 || (i !== at && i !== at + 1)), ["--quiet"], 1);
  if (at >= 0 && explicit === undefined) {
    throw usage("`hpctrain libtorch bundle --libtorch` needs the folder of the libtorch to write");
  }
  if (words.length === 0) {
    throw usage("`hpctrain libtorch bundle` needs the file to write, such as libtorch.tar");
  }
  if (at >= 0 && architectures.length > 0) {
    throw usage("`hpctrain libtorch bundle` takes --libtorch or --arch, not both");
  }
  const env = Deno.env.toObject();
  const libtorch = architectures.length > 0
    ? architectures.map((architecture) => installedFor(architecture, env))
    : [mustFind(explicit)];
  const file = resolve(words[0]);
  const say = flags.has("--quiet") ? () => {} : (line: string) => console.error(line);
  for (const { versionText, dir } of libtorch) say(`Writing libtorch ${versionText} (${dir}) to ${file}`);
  await bundleLibtorch(libtorch, file, env);
  const { size } = Deno.statSync(file);
  say(`Ready: ${formatBytes(size)}. There: hpctrain libtorch install ${words[0]}`);
  return 0;
}

function mustFind(explicit: string | undefined): Libtorch {
  const { chosen, rejected } = findLibtorch({ explicit });
  if (chosen === null) throw new UserError("environment", noLibtorchSentence(rejected));
  return chosen;
}

async function mpich(
  ifMissing: boolean,
  architecture: string,
  say?: (line: string) => void,
): Promise<number> {
  if (ifMissing && architecture === Deno.build.arch && (await mpiEngine()).find(Deno.env.toObject()).chosen) {
    return 0;
  }
  const folder = await installMpich(undefined, say, architecture);
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
    `${what}: expected \`list [--json]\`, \`install [VERSION | --cuda | FILE.tar | mpich] [--if-missing] [--quiet]\`, \`bundle FILE.tar\` or \`use DIR\`. ` +
      "See `hpctrain libtorch --help`.",
  );
}
