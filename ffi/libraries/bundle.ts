// A bundle is a tar file with an installed libtorch, or with one for each architecture, for clusters without internet. Each
// one's list of SHA-256 sums is checked before anything of it is used.
import { createHash } from "node:crypto";
import { basename, dirname, join } from "../../deps/path.ts";
import { messageOf, UserError } from "../../core/base/errors.ts";
import {
  cacheFolder,
  checkLibtorch,
  type Env,
  installedFolders,
  installedName,
  isLibtorch,
  libraryFolder,
  type Libtorch,
  readInstalledName,
} from "./find.ts";
import { architectureOf, ARCHITECTURES, exists } from "./elf.ts";

/** A bundle has this list beside the libraries. */
interface Contents {
  readonly arch: string;
  /** The files by their paths in the folder. */
  readonly sums: Readonly<Record<string, string>>;
}

const CONTENTS = "bundle.json";

/** The newest that `hpctrain libtorch install --arch` has put here for machines of this architecture. */
export function installedFor(architecture: string, env: Env): Libtorch {
  for (const dir of installedFolders(env, architecture)) {
    const found = checkLibtorch(dir, "hpctrain libtorch install", env, architecture);
    if (isLibtorch(found)) return found;
  }
  throw new UserError(
    "environment",
    `No libtorch for machines that are ${architecture} is installed here. Install one first: ` +
      `hpctrain libtorch install --arch ${architecture}`,
  );
}

/** Writes what `hpctrain libtorch install` has put into the folders of these to `file`. */
export async function bundleLibtorch(libtorch: readonly Libtorch[], file: string, env: Env): Promise<void> {
  const folders = libtorch.map((one) => installedFolder(one, env));
  const partial = join(dirname(file), `.partial-${Deno.pid}-${basename(file)}`); // its end says how tar packs it
  const listed = Deno.makeTempDirSync();
  try {
    const lists = folders.map((folder, i) => {
      const sums = Object.fromEntries(
        filesIn(folder).filter((path) => path !== CONTENTS).map((path) => [path, sumOf(join(folder, path))]),
      );
      const arch = architectureOf(join(libtorch[i].dir, "libtorch_cpu.so")) ?? Deno.build.arch;
      const contents: Contents = { arch, sums }, list = join(basename(folder), CONTENTS);
      Deno.mkdirSync(join(listed, basename(folder)));
      Deno.writeTextFileSync(join(listed, list), JSON.stringify(contents, null, 1));
      return list;
    });
    await tar(
      [
        ...["--create", "--auto-compress", "--file", partial, "--directory", listed, ...lists],
        ...["--directory", dirname(folders[0]), ...folders.map((folder) => basename(folder))],
      ],
      env,
      `${file} could not be written`,
    );
    Deno.renameSync(partial, file);
  } finally {
    Deno.removeSync(listed, { recursive: true });
    if (exists(partial)) Deno.removeSync(partial);
  }
}

/**
 * Installs all of a bundle; what was there under its names is replaced once the new one is whole. A bundle that has nothing for
 * this machine is refused, unless it is for machines of the architecture that the user names.
 */
export async function installBundle(file: string, env: Env, wanted?: string): Promise<Libtorch> {
  const root = join(cacheFolder(env), "libtorch");
  Deno.mkdirSync(root, { recursive: true });
  const work = join(root, `.partial-${Deno.pid}`);
  Deno.mkdirSync(work);
  try {
    const failed = `${file} can't be installed`;
    await tar(["--extract", "--file", file, "--directory", work, "--no-same-owner"], env, failed);
    const names = [...Deno.readDirSync(work)].map(({ name }) => name);
    const known = names.flatMap((name) => readInstalledName(name) ?? []);
    if (names.length === 0 || known.length < names.length) {
      throw noBundle(file, `it holds ${names.slice(0, 5).join(", ") || "nothing"}`);
    }
    const unpacked = names.map((folder, i) => {
      const from = join(work, folder), { arch } = checkContents(file, from);
      return { from, arch, target: join(root, installedName(known[i].name, arch)) };
    });
    refuseOthers(file, unpacked.map(({ arch }) => arch), wanted ?? Deno.build.arch);
    for (const { from, arch } of unpacked) {
      Deno.removeSync(join(from, CONTENTS));
      refuseUnusable(file, from, env, arch);
    }
    const installed: Libtorch[] = [];
    for (const { from, arch, target } of unpacked) {
      await Deno.remove(target, { recursive: true }).catch(() => {});
      Deno.renameSync(from, target);
      const one = refuseUnusable(file, target, env, arch);
      if (arch === (wanted ?? Deno.build.arch)) installed.push(one);
    }
    return installed[0];
  } finally {
    Deno.removeSync(work, { recursive: true });
  }
}

function refuseOthers(file: string, architectures: readonly string[], wanted: string): void {
  if (architectures.includes(wanted)) return;
  const theirs = architectures.join(" and "), thisMachine = `this machine is ${Deno.build.arch}`;
  throw new UserError(
    "environment",
    `The libtorch in ${file} is for machines that are ${theirs}, and ${
      wanted === Deno.build.arch ? thisMachine : `--arch ${wanted} was given`
    }. Nothing was installed. ` +
      (wanted === Deno.build.arch ? `For nodes that are ${theirs}, add --arch ${architectures[0]}.` : ""),
  );
}

function installedFolder({ dir }: Libtorch, env: Env): string {
  const root = join(cacheFolder(env), "libtorch");
  for (let folder = dir; folder !== dirname(folder); folder = dirname(folder)) {
    if (dirname(folder) === root && readInstalledName(basename(folder))) return folder;
  }
  throw new UserError(
    "usage",
    `${dir} was not installed by hpctrain, so it may need files of this machine that a bundle would not have. ` +
      "Install one first (`hpctrain libtorch install` or `install --cuda`) and name it: --libtorch DIR.",
  );
}

function checkContents(file: string, folder: string): Contents {
  let contents: Contents;
  try {
    contents = JSON.parse(Deno.readTextFileSync(join(folder, CONTENTS)));
  } catch {
    throw noBundle(file, "its list of contents is missing or no JSON");
  }
  if (!ARCHITECTURES.some((known) => known === contents.arch)) {
    throw noBundle(file, `it is for machines that are ${contents.arch}`);
  }
  const present = filesIn(folder).filter((path) => path !== CONTENTS).sort();
  const listed = Object.keys(contents.sums).sort();
  if (present.join() !== listed.join()) throw noBundle(file, "its files are not those of its list");
  const wrong = listed.find((path) => sumOf(join(folder, path)) !== contents.sums[path]);
  if (wrong !== undefined) throw noBundle(file, `${wrong} was damaged: copy the bundle again`);
  return contents;
}

const noBundle = (file: string, reason: string): UserError =>
  new UserError(
    "environment",
    `${file} is no whole bundle of \`hpctrain libtorch bundle\`: ${reason}. Nothing was installed.`,
  );

function refuseUnusable(file: string, folder: string, env: Env, architecture: string): Libtorch {
  const lib = libraryFolder(folder) ?? folder;
  const result = checkLibtorch(lib, "hpctrain libtorch install", env, architecture);
  if (isLibtorch(result)) return result;
  throw new UserError("environment", `The library in ${file} can't be used here: ${result.reason}.`);
}

/** Plain files and folders alone are a bundle's; a link could lead anywhere. */
function filesIn(folder: string, before = ""): string[] {
  return [...Deno.readDirSync(join(folder, before))].flatMap(({ name, isFile, isDirectory }) => {
    const path = join(before, name);
    if (isDirectory) return filesIn(folder, path);
    if (isFile) return [path];
    throw new UserError(
      "environment",
      `${join(folder, path)} is a link or a device, which no bundle has. Nothing was done.`,
    );
  });
}

const BLOCK = 1 << 22;

function sumOf(path: string): string {
  using file = Deno.openSync(path);
  const hash = createHash("sha256"), block = new Uint8Array(BLOCK);
  for (let read = file.readSync(block); read !== null; read = file.readSync(block)) {
    hash.update(block.subarray(0, read));
  }
  return hash.digest("hex");
}

async function tar(args: string[], env: Env, failed: string): Promise<void> {
  let output: Deno.CommandOutput;
  try {
    output = await new Deno.Command("tar", { args, env, stdout: "null", stderr: "piped" }).output();
  } catch (error) {
    throw new UserError("environment", `${failed}: tar can't be started (${messageOf(error)}).`);
  }
  if (output.success) return;
  const [line = `tar ended with code ${output.code}`] = new TextDecoder().decode(output.stderr).trim().split(
    "\n",
  );
  throw new UserError("environment", `${failed}: ${line}`);
}
