// A later start reads the structure of files and their coordinates from the user's cache, and none of the files.
import { assert, assertEquals } from "@std/assert";
import { markOf } from "../../../../../../core/data/arrays/files.ts";
import { openNotes } from "../../../../../../core/data/formats/netcdf/hdf5/header_notes.ts";
import { hdf5Content } from "../../../../../../core/data/formats/netcdf/hdf5/own_reader.ts";
import { useLibtorch } from "../../../../../libtorch.ts";
import { inFolder } from "../../../../checkpoint/python.ts";
import { written } from "../../../streamed.ts";

useLibtorch(); // opens libc, which stays open

Deno.test(
  "the cache of headers stands for files that have not changed, and for nothing where it is damaged",
  inFolder((folder) => {
    written(
      folder,
      `
import netCDF4 as nc
for i in range(3):
    with nc.Dataset(f"{i}.nc", "w") as d:
        d.createDimension("time", None); d.createDimension("lat", 4)
        t = d.createVariable("time", "f8", ("time",)); t.units = "days since 1979-01-01"; t[:] = i * 90 + np.arange(90)
        d.createVariable("lat", ">f4", ("lat",))[:] = [10, 20, 30, 40]
        d.createVariable("u", "f4", ("time", "lat"), zlib=True, chunksizes=(1, 4))[:] = r.random((90, 4))
`,
    );
    const place = `${folder}/cache/headers`, paths = [0, 1, 2].map((i) => `${folder}/${i}.nc`);
    const look = (path: string, notes = openNotes(place), mark = markOf(path), ready = () => {}) => {
      const own = notes.of(path), { isEmpty } = own;
      ready();
      const { variables } = hdf5Content(mark, own).content!;
      const read = (name: string) => variables.find((one) => one.name === name)!.read();
      const { table } = variables.find(({ name }) => name === "u")!.rows(1) as unknown as { table: unknown };
      const facts = variables.map((
        { name, shape, dimensions, attributes },
      ) => [name, shape, dimensions, attributes]);
      return { isEmpty, found: [facts, read("time"), read("lat"), table] };
    };
    const notes = openNotes(place), first = paths.map((path) => look(path, notes));
    assert(first.every(({ isEmpty }) => isEmpty));
    notes.keep();

    // The file itself is not there any more: nobody asks for it.
    const again = openNotes(place);
    const second = look(
      paths[0],
      again,
      markOf(paths[0]),
      () => Deno.renameSync(paths[0], `${paths[0]}.away`),
    );
    assertEquals(second, { isEmpty: false, found: first[0].found });
    Deno.renameSync(`${paths[0]}.away`, paths[0]);

    // Another state of a file is read anew, and what is new is kept beside what was there.
    written(folder, `import netCDF4 as nc\nwith nc.Dataset("1.nc", "a") as d: d["time"][5] = 95.5`);
    const third = openNotes(place), changed = look(paths[1], third);
    assert(changed.isEmpty);
    assertEquals(new Float64Array((changed.found[1] as Uint8Array).slice().buffer)[5], 95.5);
    third.keep();
    assertEquals(paths.slice(1).map((path) => openNotes(place).of(path).isEmpty), [false, false]);
    assertEquals(look(paths[1]), { isEmpty: false, found: changed.found });

    const bytes = Deno.readFileSync(place);
    for (
      const damaged of [
        bytes.subarray(0, 100),
        bytes.map((byte, i) => i === 2000 ? byte ^ 1 : byte),
        new Uint8Array(0),
      ]
    ) {
      Deno.writeFileSync(place, damaged);
      assert(openNotes(place).of(paths[2]).isEmpty);
    }
  }),
);
