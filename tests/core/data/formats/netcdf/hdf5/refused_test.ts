// Bad files and wrong names are refused in the same words, whether data is held in memory or read a sample at a time.
import { assert, assertEquals, assertRejects } from "@std/assert";
import { UserError } from "../../../../../../core/base/errors.ts";
import { useLibtorch } from "../../../../../libtorch.ts";
import { inFolder } from "../../../../checkpoint/python.ts";
import { type Changes, open, written } from "../../../streamed.ts";
import { sentenceNamed } from "../../../../../sentences.ts";

useLibtorch();

async function refused(path: string, said: string, changes: Changes = {}): Promise<void> {
  const sentences = [];
  for (const mode of ["yes", "no"] as const) {
    const { message } = await assertRejects(() => open(path, mode, changes), UserError);
    sentences.push(message);
  }
  assertEquals(sentences[0], sentences[1]);
  assert(sentences[0].includes(said), sentences[0]);
}

const of = (...features: string[]): Changes => ({ data: { features, targets: ["y"] } });

Deno.test(
  "npz and npy: truncated, a bomb, Python objects, texts, other lengths and shapes, no such array",
  inFolder(async (folder) => {
    written(
      folder,
      `
import zipfile
x = r.normal(size=(20, 3)); y = np.arange(20.0)
np.savez("a.npz", x=x, y=y, objects=np.array([{}] * 20), texts=np.array(["a"] * 20), short=x[:9], map=np.ones((20, 2, 2)), z=x[:, 0] * 1j)
whole = open("a.npz", "rb").read(); open("cut.npz", "wb").write(whole[:len(whole) // 2])
os.mkdir("cut"); np.save("cut/x.npy", x); np.save("cut/y.npy", y); os.truncate("cut/x.npy", 300)
np.savez_compressed("bomb.npz", x=np.zeros((1 << 22, 4)), y=np.zeros(1 << 22))`,
    );
    const path = `${folder}/a.npz`;
    await refused(path, '"objects" holds Python objects', of("objects"));
    await refused(path, '"texts" holds text', of("texts"));
    await refused(path, '"z" holds complex numbers', of("z"));
    await refused(path, '"short" has 9 samples, but "y" has 20', of("short"));
    await refused(path, "which don't go together in one sample", of("x", "map"));
    await refused(path, 'has no array "xx" (--features). Did you mean "x"?', of("xx"));
    await refused(`${folder}/cut.npz`, "cut.npz");
    await refused(`${folder}/cut`, "x.npy is truncated: ");
    await refused(`${folder}/bomb.npz`, "bomb.npz");
  }),
);

// The HDF5 library leaves a file open whose reading failed.
Deno.test({
  name: "HDF5 and NetCDF: truncated, no such variable, wrong rank, other lengths, texts",
  sanitizeResources: false,
  fn: inFolder(async (folder) => {
    written(
      folder,
      `
import h5py, netCDF4
x = r.normal(size=(500, 20))
with h5py.File("a.h5", "w") as f:
    f.create_dataset("x", data=x, chunks=(50, 20), compression="gzip"); f["y"] = np.arange(500.0); f["one"] = 3.5; f["words"] = ["a"] * 500
    f["short"] = x[:9]; f["cube"] = np.ones((500, 4, 4))
for name, format in dict(new="NETCDF4", old="NETCDF3_CLASSIC").items():
    with netCDF4.Dataset(name + ".nc", "w", format=format) as d:
        d.createDimension("s", 500); d.createDimension("c", 20)
        d.createVariable("x", "f4", ("s", "c"))[:] = x; d.createVariable("y", "f8", ("s",))[:] = np.arange(500); d.createVariable("t", "f4", ("c",))[:] = 1
for name in ["a.h5", "new.nc", "old.nc"]:
    whole = open(name, "rb").read(); open("cut-" + name, "wb").write(whole[:len(whole) // 2])`,
    );
    const path = `${folder}/a.h5`;
    await refused(
      path,
      sentenceNamed("core/data/formats/netcdf/hdf5/refused: dataset features mean"),
      of("xx"),
    );
    await refused(path, '"one" is a single number', of("one"));
    await refused(path, '"words" holds text', of("words"));
    await refused(path, '"short" has 9 samples', of("short"));
    await refused(path, "which don't go together in one sample", of("x", "cube"));
    await refused(`${folder}/cut-a.h5`, "truncated file");
    await refused(`${folder}/cut-new.nc`, "truncated file");
    await refused(`${folder}/cut-old.nc`, "is truncated: ", of("x"));
    for (const name of ["new.nc", "old.nc"]) {
      await refused(`${folder}/${name}`, 'has no variable "z" (--features)', of("z"));
      await refused(`${folder}/${name}`, '"t" has 20 samples', of("t"));
    }
  }),
});
