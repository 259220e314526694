// Reads what torch.export.save writes: a zip of a graph in JSON, weights and constants, in the layout of
// PyTorch 2.8 and later (models/, data/) or the flat one of before. Nothing in it is executed.
import { createHash } from "node:crypto";
import { crc32 } from "node:zlib";
import { damagedCheckpoint, FileBytes } from "../../base/file_bytes.ts";
import { readPt } from "../../checkpoint/pt.ts";
import { type Storage, TensorData, type Value } from "../../checkpoint/value.ts";
import { isZip, openZip, STORED, type ZipEntry, type ZipReader } from "../../base/zip.ts";
import { type ExportedProgram, JsonReader, readMeta, readProgram, type TensorMeta } from "./graph.ts";
import { withoutLeftovers } from "./inline.ts";

export interface Archive {
  readonly path: string;
  readonly program: ExportedProgram;
  /** The state dict keeps its order. Tied weights share storage, place and strides. */
  readonly weights: ReadonlyMap<string, TensorData>;
  /** These are no part of the state dict. They have the signature's names. */
  readonly constants: ReadonlyMap<string, TensorData>;
  readonly fileBytes: number;
  /** Weights are read on demand, so the file stays open until then. */
  close(): void;
  [Symbol.dispose](): void;
}

/** The tensor is the whole of a raw entry. */
export interface EntryStorage extends Storage {
  readonly entry: string;
  readInto(bytes: Uint8Array): void;
}

// A graph of the largest models has some ten thousand nodes of a few kilobytes each.
const MAX_JSON_BYTES = 256 << 20;

/** The SHA-256 covers what is run, not the weights. */
export function programHash(path: string): string {
  const file = new FileBytes(path);
  try {
    if (!isZip(file)) return "";
    const zip = openZip(file);
    const graph = [...zip.entries].find(([name]) => isGraph(name));
    return graph ? createHash("sha256").update(zip.read(graph[1])).digest("hex") : "";
  } finally {
    file.close();
  }
}

const GRAPH = /(^|\/)(serialized_exported_program\.json|models\/[^/]+\.json)$/;

/** The zip's entry of this name is the graph. */
export const isGraph = (name: string): boolean => GRAPH.test(name);

export function openExported(path: string): Archive {
  const file = new FileBytes(path);
  const closing: (() => void)[] = [() => file.close()];
  const close = () => closing.splice(0).forEach((end) => end());
  try {
    if (!isZip(file)) {
      throw damagedCheckpoint(path, "is not an exported program: a .pt2 file is a zip, and this is not one");
    }
    const parts = new Parts(path, file, closing);
    const { program, weights, constants } = parts.read();
    return { path, program, weights, constants, fileBytes: file.size, close, [Symbol.dispose]: close };
  } catch (error) {
    close();
    throw error;
  }
}

class Parts {
  readonly #json: JsonReader;
  readonly #byName = new Map<string, ZipEntry>();
  readonly #storages = new Map<string, Storage>();
  readonly #empty = new Set<string>();
  /** By entry: the first tensor in it. */
  readonly #tensors = new Map<string, string>();

  readonly zip: ZipReader;

  constructor(readonly path: string, readonly file: FileBytes, readonly closing: (() => void)[]) {
    this.zip = openZip(file, { meaning: ({ name }) => this.#tensors.get(name) ?? "" });
    this.#json = new JsonReader(path);
    // The newer layout has one folder around everything, named after the file.
    const names = [...this.zip.entries.keys()];
    const mark = names.find((name) => /(^|\/)(archive_format|models\/[^/]+\.json)$/.test(name));
    const prefix = mark?.replace(/(archive_format|models\/[^/]+\.json)$/, "") ?? "";
    for (const [name, entry] of this.zip.entries) {
      if (name.startsWith(prefix)) this.#byName.set(name.slice(prefix.length), entry);
    }
  }

  read(): Pick<Archive, "program" | "weights" | "constants"> {
    const flat = "serialized_exported_program.json";
    if (this.#byName.has(flat)) {
      const part = (name: string) => this.#pickled(name);
      return {
        program: readProgram(this.#parsed(flat), this.path),
        weights: part("serialized_state_dict.pt"),
        constants: part(
          this.#byName.has("serialized_constants.pt")
            ? "serialized_constants.pt"
            : "serialized_constants.json",
        ),
      };
    }
    const models = [...this.#byName.keys()].filter((name) => /^models\/[^/]+\.json$/.test(name));
    if (models.length === 0) {
      throw damagedCheckpoint(
        this.path,
        "is a zip without an exported program: write it with torch.export.save (a package of AOTInductor can't be trained)",
      );
    }
    if (models.length > 1) {
      throw damagedCheckpoint(
        this.path,
        `holds ${models.length} models, and one is expected: save them one by one`,
      );
    }
    const name = models[0].slice("models/".length, -".json".length);
    return {
      weights: this.#payload("data/weights/", name, "weights"),
      constants: this.#payload("data/constants/", name, "constants"),
      program: withoutLeftovers(readProgram(this.#parsed(models[0]), this.path), this.#empty, this.#json),
    };
  }

  #entry(name: string): ZipEntry {
    return this.#byName.get(name) ?? this.#json.refuse(`its part ${JSON.stringify(name)} is missing`);
  }

  #parsed(name: string) {
    const entry = this.#entry(name);
    if (entry.size > MAX_JSON_BYTES) this.#json.refuse(`its graph has ${entry.size} bytes`);
    return this.#json.parse(this.zip.read(entry), JSON.stringify(name));
  }

  #payload(folder: string, model: string, kind: string): Map<string, TensorData> {
    const legacy = `${folder}${model}.pt`; // PyTorch 2.8
    if (this.#byName.has(legacy)) return this.#pickled(legacy);
    const r = this.#json;
    const root = r.dict(this.#parsed(`${folder}${model}_${kind}_config.json`), kind);
    const found = new Map<string, TensorData>();
    for (const [name, json] of Object.entries(r.dict(root.config, kind))) {
      const meta = r.dict(json, name);
      const path = folder + r.text(meta.path_name, `the place of ${name}`);
      if (meta.use_pickle === true) {
        const only = this.#onePickled(path);
        if (only) found.set(name, only);
        continue;
      }
      const tensor = readMeta(r, meta.tensor_meta, name);
      if (kind === "constants" && !tensor.sizes.includes(0) && this.#byName.get(path)?.size === 0) {
        this.#empty.add(name);
      } else found.set(name, this.#tensor(path, tensor, name));
    }
    return found;
  }

  #tensor(path: string, meta: TensorMeta, name: string): TensorData {
    const { dtype, sizes, strides, offset } = meta;
    const numbers = (values: readonly unknown[]): values is readonly number[] =>
      values.every((v) => typeof v === "number" && v >= 0);
    if (dtype === null) return this.#json.refuse(`the tensor ${name} is of a type unknown here`);
    if (!numbers(sizes) || !numbers(strides) || sizes.length !== strides.length || offset < 0) {
      return this.#json.refuse(`the tensor ${name} has no fixed size`);
    }
    const storage = this.#storage(path), { name: entry } = this.#entry(path);
    if (!this.#tensors.has(entry)) this.#tensors.set(entry, name);
    const tensor = new TensorData(dtype, sizes, storage, strides, offset);
    const last = sizes.reduce((at, size, i) => at + (size - 1) * strides[i], offset);
    const width = tensor.numel === 0 ? 0 : tensor.byteLength / tensor.numel;
    if (tensor.numel > 0 && (last + 1) * width > storage.byteLength) {
      this.#json.refuse(`the tensor ${name} needs ${(last + 1) * width} bytes and has ${storage.byteLength}`);
    }
    return tensor;
  }

  #storage(path: string): Storage {
    let storage = this.#storages.get(path);
    if (!storage) {
      const entry = this.#entry(path);
      const own: EntryStorage = {
        entry: entry.name,
        ...this.zip.content(entry),
        readInto: (bytes) => this.#readInto(entry, bytes),
      };
      storage = own;
      this.#storages.set(path, storage);
    }
    return storage;
  }

  #readInto(entry: ZipEntry, bytes: Uint8Array): void {
    if (entry.method !== STORED) return bytes.set(this.zip.read(entry));
    this.file.readInto(this.zip.startOf(entry), bytes);
    if (crc32(bytes) !== entry.crc) this.zip.verify(entry); // It throws with the sentence.
  }

  #pickled(path: string): Map<string, TensorData> {
    const found = new Map<string, TensorData>();
    const root = this.#unpickled(path);
    if (!(root instanceof Map)) return found;
    for (const [key, value] of root) if (value instanceof TensorData) found.set(String(key), value);
    return found;
  }

  #onePickled(path: string): TensorData | null {
    const root = this.#unpickled(path);
    return root instanceof TensorData ? root : null;
  }

  #unpickled(path: string): Value | null {
    const entry = this.#entry(path);
    if (entry.size === 0) return null;
    const temporary = Deno.makeTempFileSync({ suffix: ".pt" });
    try {
      Deno.writeFileSync(temporary, this.zip.read(entry));
      const inner = readPt(temporary); // The file stays open, without a name, until the program was read.
      this.closing.push(() => inner.close());
      return inner.root;
    } catch (error) {
      const reason = error instanceof Error ? error.message.replaceAll(temporary, path) : String(error);
      return this.#json.refuse(reason);
    } finally {
      Deno.removeSync(temporary);
    }
  }
}
