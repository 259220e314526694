// A bundle is a tar file with an installed libtorch, for clusters without internet. Its list of SHA-256 sums is checked
// before anything of it is used.
import { createHash } from "node:crypto";
import { basename, dirname, join } from "../../deps/path.ts";
import { messageOf, UserError } from "../../core/base/errors.ts";
import { cacheFolder, checkLibtorch, type Env, isLibtorch, libraryFolder, type Libtorch } from "./find.ts";
import { exists } from "./elf.ts";

/** A bundle has this list beside the libraries. */
interface Contents {
  readonly arch: string;
  /** The files by their paths in the folder. */
  readonly sums: Readonly<Record<string, string>>;
}

const CONTENTS = "bundle.json", FOLDER = /^\d+\.\d+\.\d+-(cpu|cuda)$/;

/** Writes what `hpctrain libtorch install` has put into `libtorch` to `file`. */
export async function bundleLibtorch(libtorch: Libtorch, file: string, env: Env): Promise<void> {
  const folder = installedFolder(libtorch, env);
  const sums = Object.fromEntries(
    filesIn(folder).filter((path) => path !== CONTENTS).map((path) => [path, sumOf(join(folder, path))]),
  );
  const contents: Contents = { arch: Deno.build.arch, sums };
  const partial = join(dirname(file), `.partial-${Deno.pid}-${basename(file)}`); // its end says how tar packs it
  const listed = Deno.makeTempDirSync();
  try {
    Deno.mkdirSync(join(listed, basename(folder)));
    const list = join(basename(folder), CONTENTS);
    Deno.writeTextFileSync(join(listed, list), JSON.stringify(contents, null, 1));
    await tar(
      [
        ...["--create", "--auto-compress", "--file", partial, "--directory", listed, list],
        ...["--directory", dirname(folder), basename(folder)],
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

/** Installs a bundle; what was there under its name is replaced once the new one is whole. */
export async function installBundle(file: string, env: Env): Promise<Libtorch> {
  const root = join(cacheFolder(env), "libtorch");
  Deno.mkdirSync(root, { recursive: true });
  const work = join(root, `.partial-${Deno.pid}`);
  Deno.mkdirSync(work);
  try {
    const failed = `${file} can't be installed`;
    await tar(["--extract", "--file", file, "--directory", work, "--no-same-owner"], env, failed);
    const names = [...Deno.readDirSync(work)].map(({ name }) => name);
    if (names.length !== 1 || !FOLDER.test(names[0])) {
      throw noBundle(file, `it holds ${names.slice(0, 5).join(", ") || "nothing"}`);
    }
    const unpacked = join(work, names[0]), target = join(root, names[0]);
    checkContents(file, unpacked);
    Deno.removeSync(join(unpacked, CONTENTS));
    refuseUnusable(file, unpacked, env);
    await Deno.remove(target, { recursive: true }).catch(() => {});
    Deno.renameSync(unpacked, target);
    return refuseUnusable(file, target, env);
  } finally {
    Deno.removeSync(work, { recursive: true });
  }
}

function installedFolder({ dir }: Libtorch, env: Env): string {
  const root = join(cacheFolder(env), "libtorch");
  for (let folder = dir; folder !== dirname(folder); folder = dirname(folder)) {
    if (dirname(folder) === root && FOLDER.test(basename(folder))) return folder;
  }
  throw new UserError(
    "usage",
    `${dir} was not installed by hpctrain, so it may need files of this machine that a bundle would not have. ` +
      "Install one first (`hpctrain libtorch install` or `install --cuda`) and name it: --libtorch DIR.",
  );
}

function checkContents(file: string, folder: string): void {
  let contents: Contents;
  try {
    contents = JSON.parse(Deno.readTextFileSync(join(folder, CONTENTS)));
  } catch {
    throw noBundle(file, "its list of contents is missing or no JSON");
  }
  if (contents.arch !== Deno.build.arch) {
    throw noBundle(file, `it was made on ${contents.arch}, and this machine is ${Deno.build.arch}`);
  }
  const there = filesIn(folder).filter((path) => path !== CONTENTS).sort();
  const listed = Object.keys(contents.sums).sort();
  if (there.join() !== listed.join()) throw noBundle(file, "its files are not those of its list");
  const wrong = listed.find((path) => sumOf(join(folder, path)) !== contents.sums[path]);
  if (wrong !== undefined) throw noBundle(file, `${wrong} was damaged: copy the bundle again`);
}

const noBundle = (file: string, reason: string): UserError =>
  new UserError(
    "environment",
    `${file} is no whole bundle of \`hpctrain libtorch bundle\`: ${reason}. Nothing was installed.`,
  );

function refuseUnusable(file: string, folder: string, env: Env): Libtorch {
  const lib = libraryFolder(folder) ?? folder;
  const result = checkLibtorch(lib, "hpctrain libtorch install", env);
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
