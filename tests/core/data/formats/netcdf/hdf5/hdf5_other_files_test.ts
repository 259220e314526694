// HDF5 files whose data lies in other files: by links, as bytes, and from files that h5py wrote.
import { assert, assertEquals, assertStringIncludes, assertThrows } from "@std/assert";
import { UserError } from "../../../../../../core/base/errors.ts";
import { byLibrary } from "../../../../../../core/data/formats/netcdf/hdf5/hdf5.ts";
import { readOwn } from "../../../../../../core/data/formats/netcdf/hdf5/own_reader.ts";
import {
  followOtherFiles,
  type LibraryRows,
  loadHdf5,
  openLibraryRows,
  slabRows,
} from "../../../../../../core/data/formats/netcdf/hdf5/library.ts";
import { inFolder, python } from "../../../../checkpoint/python.ts";
import { assertSentence } from "../../../../../sentences.ts";

await loadHdf5();

const FILES = `
import h5py, numpy as np, os, sys
d = sys.argv[1] + "/"
os.mkdir(d + "other")
with h5py.File(d + "other/o.h5", "w") as f: f["z"] = np.arange(20, dtype="f4").reshape(10, 2)
np.arange(100, 110, dtype="u1").tofile(d + "other/raw.bin")
with h5py.File(d + "data.h5", "w") as f:
    f["x"] = np.arange(10, dtype="f4")
    f["linked"] = h5py.ExternalLink(d + "other/o.h5", "/z")
    f.create_dataset("raw", shape=(10,), dtype="u1", external=[(d + "other/raw.bin", 0, 10)])
with h5py.File(d + "deep.h5", "w") as f:
    f["x"] = np.zeros(3); g = f
    for i in range(4000): g = g.create_group("g")
with h5py.File(d + "circle.h5", "w") as f:
    f["x"] = np.zeros(3); a = f.create_group("a"); b = a.create_group("b")
    b["back"] = a; b["root"] = f["/"]; a["self"] = a
`;

// After a fault the library keeps a file of its own open.
const OPEN = { sanitizeResources: false };

Deno.test(
  "links and storage in other files are refused by name, and followed with --external-files",
  OPEN,
  inFolder((folder) => {
    python(FILES, folder);
    const path = `${folder}/data.h5`;
    assertEquals(readOwn(path), null); // our own reader leaves such files to the library
    byLibrary(path, ({ variables }) => {
      const found = new Map(variables.map((v) => [v.name, v]));
      assertEquals(new Float32Array(found.get("x")!.read().buffer)[9], 9);
      assertSentence(
        "core/data/formats/netcdf/hdf5/hdf5_other_files: lies another file",
        found.get("linked")!.unusable,
        { folder },
      );
      const raw = found.get("raw")!;
      const { message } = assertThrows(() => raw.read(), UserError);
      assertStringIncludes(message, `${path}: raw lies in another file (${folder}/other/raw.bin)`);
      const rows = raw.rows(1) as LibraryRows;
      if (rows.module !== slabRows) throw new Error(rows.layout);
      const reader = openLibraryRows(rows);
      const told = assertThrows(() => reader.read(0, new Uint8Array(1)), UserError);
      assertStringIncludes(told.message, "--external-files");
      reader.close();
    });
    try {
      followOtherFiles(true);
      byLibrary(path, ({ variables }) => {
        const found = new Map(variables.map((v) => [v.name, v]));
        assertEquals(new Float32Array(found.get("linked")!.read().buffer)[19], 19);
        assertEquals([...found.get("raw")!.read()].at(-1), 109);
        const rows = found.get("raw")!.rows(1) as LibraryRows;
        assert(rows.module === slabRows && rows.elsewhere);
      });
    } finally {
      followOtherFiles(false);
    }
  }),
);

Deno.test(
  "groups that contain themselves are gone through once; groups thousands deep are one sentence",
  OPEN,
  inFolder((folder) => {
    python(FILES, folder);
    byLibrary(
      `${folder}/circle.h5`,
      ({ variables }) => assertEquals(variables.map(({ name }) => name), ["x"]),
    );
    const read = () => byLibrary(`${folder}/deep.h5`, ({ variables }) => variables.length);
    const outcome = (() => {
      try {
        return read();
      } catch (error) {
        assert(error instanceof UserError, String(error));
        return (error as UserError).message;
      }
    })();
    if (outcome !== 1) assertStringIncludes(String(outcome), "its groups lie too deep in one another");
  }),
);
