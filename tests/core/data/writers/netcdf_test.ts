// Classic NetCDF as netCDF4 and scipy read it: every type, odd lengths, attributes, 64-bit offsets and sizes.
import { join } from "paths";
import { ARRAYS, type ClassicType, writeClassic } from "../../../../core/data/writers/netcdf.ts";
import { inFolder, python } from "../../checkpoint/python.ts";

const LOOK = `
import sys, numpy as np, netCDF4
from scipy.io import netcdf_file
for name, model in (("two.nc", "NETCDF3_64BIT_OFFSET"), ("five.nc", "NETCDF3_64BIT_DATA")):
    with netCDF4.Dataset(sys.argv[1] + "/" + name) as d:
        assert d.data_model == model and d.title == "höhe" and d.dimensions["x"].size == 3
        for kind in ("i1", "i2", "i4", "f4", "f8"):
            v = d["v_" + kind]
            assert v.dtype == kind and v.dimensions == ("y", "x") and v[:].tolist() == [[-1, 0, 1], [2, 3, 4]], v
            assert v.some.dtype == kind and v.some.tolist() == [1, 2, 3] and v.units == "m"
        assert d["alone"][...] == 7 and d["alone"].ncattrs() == []
with netcdf_file(sys.argv[1] + "/two.nc", mmap=False) as d:
    assert d.variables["v_i2"][:].tolist() == [[-1, 0, 1], [2, 3, 4]]
`;

Deno.test(
  "what is written is what netCDF4 and scipy read, with 64-bit offsets and with 64-bit sizes",
  inFolder((folder) => {
    const types = Object.keys(ARRAYS) as ClassicType[];
    const names = { i8: "i1", i16: "i2", i32: "i4", f32: "f4", f64: "f8" };
    const content = {
      dimensions: [{ name: "y", size: 2 }, { name: "x", size: 3 }],
      attributes: { title: "höhe" },
      variables: [
        ...types.map((type) => ({
          ...{ name: `v_${names[type]}`, type, dimensions: ["y", "x"] },
          attributes: { units: "m", some: { type, values: [1, 2, 3] } },
          pieces: () => [new ARRAYS[type]([-1, 0, 1]), new ARRAYS[type]([2, 3, 4])],
        })),
        {
          ...{ name: "alone", type: "i8" as const, dimensions: [], attributes: {} },
          pieces: () => [Int8Array.of(7)],
        },
      ],
    };
    for (const [name, most] of [["two.nc", undefined], ["five.nc", 20]] as const) {
      using file = Deno.openSync(join(folder, name), { write: true, createNew: true });
      writeClassic(file, content, most);
    }
    python(LOOK, folder);
  }),
);
