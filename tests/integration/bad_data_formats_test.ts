// Bad files of every format: a sentence that names the file and what to do, exit code 3, and nothing trained on.
import { assert, assertEquals, assertMatch } from "@std/assert";
import { join } from "paths";
import { goodFiles, lay } from "./formats.ts";
import { inTemp, ROOT_USER, run, succeed, TINY } from "./program.ts";

const TRAIN = [...TINY, "--model=mlp", "--hidden-size=8", "--save-dir=out"];

interface Case {
  readonly name: string;
  /** Of tests/peers/data/formats.py. */
  readonly files: readonly string[];
  readonly args: readonly string[];
  readonly damage?: (folder: string, path: (name: string) => string) => void;
  readonly says: RegExp;
  /** A program that runs the one under test. */
  readonly through?: string[];
}

async function refused({ files, args, damage, says, through }: Case): Promise<void> {
  const good = await goodFiles(...files);
  assert(good.size > 0, "no such files");
  await inTemp(async (cwd) => {
    lay(good, cwd);
    damage?.(cwd, (name) => join(cwd, name));
    const { code, stderr } = await run([...TRAIN, ...args], { cwd, through });
    const last = stderr.trimEnd().split("\n").at(-1)!;
    assertMatch(last, says);
    assertMatch(last, /^hpctrain: .*[.?]$/, "a whole sentence");
    assertEquals(code, 3, stderr);
  });
}

/** A part of a file's beginning. */
const cut = (file: string, share = 0.5) =>
  Deno.truncateSync(file, Math.floor(Deno.statSync(file).size * share));

const ROWS = ["--data-path=rows.npz"], SMALL = ["--data-path=small.npz"], HDF5 = ["--data-path=rows.h5"];
const held = (args: readonly string[]) => [...args, "--in-memory=yes"];
const streamed = (args: readonly string[]) => [...args, "--in-memory=no"];
const netcdf = (file: string, features: string, targets = "ice") => [
  `--data-path=${file}`,
  `--features=${features}`,
  `--targets=${targets}`,
];

const cases: readonly Case[] = [
  {
    name: "a JPEG that ends too soon",
    files: ["images"],
    args: ["--data-path=images"],
    damage: (_, path) => cut(path("images/cat/05.jpg")),
    says: /Sample 5 \(images\/cat\/05\.jpg\) is cut off .*--bad-samples skip/,
  },
  {
    name: "a JPEG of nothing",
    files: ["images"],
    args: ["--data-path=images"],
    damage: (_, path) => cut(path("images/cat/05.jpg"), 0),
    says: /cat\/05\.jpg.* empty/,
  },
  {
    name: "images of several sizes without a resize",
    files: ["images", "tall.jpg"],
    args: ["--data-path=images"],
    damage: (_, path) => Deno.renameSync(path("tall.jpg"), path("images/cat/00.jpg")),
    says: /32.*48.*--resize \d+ --centre-crop \d+/,
  },
  {
    name: "a class folder without images",
    files: ["images"],
    args: ["--data-path=images"],
    damage: (_, path) => Deno.mkdirSync(path("images/eel")),
    says: /The class folder images\/eel has no images in it.*or remove the folder/,
  },
  {
    name: "an npz that ends too soon",
    files: ["rows.npz"],
    args: held(ROWS),
    damage: (_, path) => cut(path("rows.npz")),
    says: /rows\.npz: is a truncated zip.*Copy it again/,
  },
  {
    name: "an npz, streamed, that ends too soon",
    files: ["rows.npz"],
    args: streamed(ROWS),
    damage: (_, path) => cut(path("rows.npz"), 0.9),
    says: /rows\.npz: is a truncated zip.*Copy it again/,
  },
  {
    name: "an npz whose array unpacks to far more than it says",
    files: ["hidden_bomb.npz"],
    args: held(["--data-path=hidden_bomb.npz"]),
    says: /hidden_bomb\.npz: the compressed entry "x\.npy" is corrupt|unpacks to more/,
  },
  {
    name: "an npz whose array is said to be larger than any memory",
    files: ["huge.npz"],
    args: held(["--data-path=huge.npz"]),
    says: /huge\.npz: the entry "x\.npy" would unpack \d+ bytes into 4294967280/,
  },
  {
    name: "a compressed npz that is to be streamed",
    files: ["small.npz"],
    args: streamed(SMALL),
    says: /small\.npz: the array "x" is compressed.*--in-memory yes/,
  },
  {
    name: "an npz of Python objects",
    files: ["objects.npz"],
    args: ["--data-path=objects.npz"],
    says: /objects\.npz: the array "x" .*Python objects/,
  },
  {
    name: "an npy of Python objects",
    files: ["objects.npy"],
    args: ["--data-path=objects.npy"],
    says: /objects\.npy.*Python objects/,
  },
  {
    name: "an HDF5 file that ends too soon",
    files: ["rows.h5"],
    args: held(HDF5),
    damage: (_, path) => cut(path("rows.h5")),
    says: /rows\.h5 can't be read as HDF5: truncated file/,
  },
  {
    name: "an HDF5 file, streamed, that ends too soon",
    files: ["rows.h5"],
    args: streamed(HDF5),
    damage: (_, path) => cut(path("rows.h5"), 0.9),
    says: /rows\.h5 can't be read as HDF5: truncated file/,
  },
  ...["rows.nc", "classic.nc"].flatMap((file): Case[] => [
    {
      name: `a variable that is not in ${file}`,
      files: [file],
      args: netcdf(file, "winds"),
      says: /no variable "?winds"?.*wind.*ice/,
    },
    {
      name: `a variable of ${file} without the samples' dimension`,
      files: [file],
      args: netcdf(file, "pressure"),
      says: /the variable "pressure" has 4 samples, but "ice" has 80/,
    },
    {
      name: `variables of ${file} with unlike shapes`,
      files: [file],
      args: netcdf(file, "wind,maps"),
      says: /the variable "wind" has the shape \[80, 4\] and "maps" \[80, 4, 4\], which don't go together/,
    },
    {
      name: `a variable of ${file} that is one number`,
      files: [file],
      args: netcdf(file, "version"),
      says: /the variable "version" is a single number, not one value a sample/,
    },
  ]),
  {
    name: "NaN among the features",
    files: ["nan.npz"],
    args: held(["--data-path=nan.npz"]),
    says: /nan\.npz: the array "x" is NaN.* sample 7 .*--bad-samples skip/,
  },
  {
    name: "NaN among the features, streamed",
    files: ["nan.npz"],
    args: streamed(["--data-path=nan.npz"]),
    says: /[Ss]ample 7 .*NaN.*--bad-samples skip/,
  },
  {
    name: "a token beyond the vocabulary",
    files: ["tokens.bin"],
    args: ["--data-path=tokens.bin", "--model=gpt", "--set=model.vocab_size=49"],
    says: /tokens\.bin: token 49 .* is 49, outside of the vocabulary of 49: set model\.vocab_size to 50/,
  },
];

/** Root may read everything, unless that right is taken from it. */
const likeOthers = ROOT_USER ? ["setpriv", "--bounding-set=-dac_override,-dac_read_search"] : [];
const closed = (name: string, args: string[] = [], data = name): Case => ({
  name: `${name} that this user may not read`,
  files: [data],
  args: [`--data-path=${data}`, ...args],
  damage: (_, path) => Deno.chmodSync(path(name), 0),
  says: new RegExp(`${name}.* (may not|[Pp]ermission)`),
  through: likeOthers,
});
const unreadable: readonly Case[] = [
  ...[[], ["--in-memory=no"]].flatMap((memory) => [
    closed("rows.npz", memory),
    closed("rows.h5", memory),
    closed("classic.nc", [...memory, "--features=wind", "--targets=ice"]),
  ]),
  closed("tokens.bin"),
  closed("images/dog/11.jpg", [], "images"),
  closed("images/dog", [], "images"),
];

Deno.test("the same files, whole and open, train", async () => {
  const good = await goodFiles("images", "rows.npz", "small.npz", "rows.h5", "rows.nc", "classic.nc");
  await inTemp(async (cwd) => {
    lay(good, cwd);
    const runs = [
      ["--data-path=images"],
      held(ROWS),
      streamed(ROWS),
      held(SMALL),
      held(HDF5),
      streamed(HDF5),
      netcdf("rows.nc", "wind"),
      netcdf("classic.nc", "wind"),
    ];
    for (const args of runs) await succeed([...TRAIN, ...args], { cwd });
  });
});

for (const one of [...cases, ...unreadable]) {
  Deno.test(`${one.name} ends with a sentence and code 3`, () => refused(one));
}
