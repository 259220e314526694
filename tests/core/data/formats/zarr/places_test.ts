// Zarr stores on a server and in zip files are what they are in folders, and each fault of a server is a sentence.
import { assert, assertEquals, assertMatch, assertThrows } from "@std/assert";
import { UserError } from "../../../../../core/base/errors.ts";
import { detect } from "../../../../../core/data/open/formats.ts";
import { openStoreServer } from "../../../../../core/data/formats/zarr/server.ts";
import { withZarr } from "../../../../../core/data/formats/zarr/zarr.ts";
import { useLibtorch } from "../../../../libtorch.ts";
import { inFolder } from "../../../checkpoint/python.ts";
import { alike, numbers } from "../../streamed.ts";
import { writtenBy } from "../written.ts";
import { assertSentence } from "../../../../sentences.ts";

useLibtorch();

async function served(folder: string, use: (address: string) => void | Promise<void>): Promise<void> {
  const worker = new Worker(new URL("../../file_server.ts", import.meta.url), { type: "module" });
  const port = await new Promise<number>((resolve, reject) => {
    worker.onmessage = ({ data }) => resolve(data);
    worker.onerror = reject;
    worker.postMessage(folder);
  });
  try {
    await use(`http://127.0.0.1:${port}`);
  } finally {
    worker.terminate();
  }
}

const STORES = `
import xarray as x, zarr, zipfile, shutil, warnings, pandas as pd
from zarr.codecs import BytesCodec, ZstdCodec, ShardingCodec
warnings.simplefilter("ignore")
a = r.normal(size=(12, 2, 8, 8)).astype("f4")
ds = x.Dataset({"x": (("time", "c", "lat", "lon"), a), "y": (("time", "k", "lat", "lon"), a[:, :1] * 2)}, {"time": pd.date_range("2000-01-01", periods=12)})
e = {"x": {"chunks": (2, 2, 8, 5)}}
ds.to_zarr("two.zarr", zarr_format=2, encoding=e); ds.to_zarr("three.zarr", zarr_format=3, encoding=e)
ds.to_zarr("shards.zarr", zarr_format=3, encoding={"x": {"chunks": (1, 2, 8, 8), "shards": (4, 2, 8, 8)}})
ds.to_zarr("bare.zarr", zarr_format=2, consolidated=False)
for i in (0, 1): ds.isel(time=slice(6 * i, 6 * i + 6)).to_zarr(f"part{i}.zarr", zarr_format=3)
for v in (2, 3):
    with zarr.storage.ZipStore(f"by{v}.zarr.zip", mode="w") as z: ds.to_zarr(z, zarr_format=v, encoding=e, consolidated=v == 2)
shutil.make_archive("deflated.zarr", "zip", ".", "shards.zarr")
`;

Deno.test({
  name: "stores on a server and in a zip are the same as in a folder: in memory, streamed, sharded, many",
  sanitizeResources: false,
  fn: inFolder(async (folder) => {
    writtenBy(folder, STORES);
    await served(folder, async (address) => {
      const of = async (path: string) => {
        const { train, notes } = await alike(path, {
          data: { features: ["x"], targets: ["y"] },
          model: { name: "unet" },
        });
        return { values: numbers(train), notes };
      };
      const { values: whole } = await of(`${folder}/two.zarr`);
      const paths = [
        ...["by2", "by3", "deflated"].map((name) => `${folder}/${name}.zarr.zip`),
        ...["good/two", "good/three", "good/shards", "whole/shards", "flaky/three", "moved/two"].map((name) =>
          `${address}/${name}.zarr`
        ),
        `${address}/good/part{0,1}.zarr/`,
      ];
      for (const path of paths) {
        assertEquals(detect(path), "zarr", path);
        const { values, notes } = await of(path);
        assertEquals(values, whole, path);
        if (path.includes("{")) assert(notes.some((note) => note.includes("joined along time")));
      }
    });
  }),
});

Deno.test({
  name: "each fault of a server is one sentence, and no other host is asked",
  sanitizeResources: false,
  fn: inFolder(async (folder) => {
    writtenBy(folder, STORES);
    await served(folder, (address) => {
      const refused = (path: string): string => {
        const error = assertThrows(() => withZarr(path, () => 0), UserError);
        assertEquals(error.kind, path.includes("@") || path.includes("*") ? "usage" : "data");
        assertMatch(error.message, /\.$/);
        return error.message;
      };
      const at = (behaviour: string) => refused(`${address}/${behaviour}/two.zarr`);
      assertSentence("core/data/formats/zarr/places: asks name password", at("closed"));
      assertSentence("core/data/formats/zarr/places: does give http", at("forbidden"));
      assertMatch(
        at("away"),
        /sends the request .* on to http:\/\/localhost:\d+, and only the host that --data-path/,
      );
      assertMatch(at("round"), /on to itself, again and again/);
      assertMatch(at("endless"), /far larger than it can be|is no Zarr store/);
      assertMatch(refused(`${address}/good/none.zarr`), /is no Zarr store: .*names the store's own folder/);
      assertMatch(
        refused(`${address}/good/bare.zarr`),
        /no consolidated metadata.*zarr\.consolidate_metadata/,
      );
      assertMatch(
        refused("http://me:secret@127.0.0.1:9/x.zarr"),
        /has a name or password for 127\.0\.0\.1:9 in it/,
      );
      assertMatch(refused(`${address}/good/*.zarr`), /has a star or brackets.*\{1979\.\.2012\}/);
      const impatient = (path: string): string => {
        const files = openStoreServer(path, { silenceMs: 50, waitMs: 1 });
        const error = assertThrows(() => files.has("zarr.json"), UserError);
        files.close();
        return error.message;
      };
      assertMatch(impatient(`${address}/silent/two.zarr`), /gave no answer for .* in 0\.05 s, 4 times/);
      assertMatch(impatient(`${address}/down/two.zarr`), /answered 500 for .*, 4 times\. Try again later/);
      assertMatch(
        impatient("http://127.0.0.1:9/x.zarr"),
        /127\.0\.0\.1:9 can't be reached .*, 4 times\. Check data\.data_path/,
      );
    });
    assertThrows(
      () => detect("http://127.0.0.1:9/x.zarr.zip"),
      UserError,
      "only Zarr in a folder. Copy it first (curl -LO",
    );
    assertThrows(
      () => detect("s3://bucket/x.zarr"),
      UserError,
      "aws s3 cp --recursive 's3://bucket/x.zarr' .",
    );
  }),
});
