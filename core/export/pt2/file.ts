// A .pt2 file: the archive that torch.export.save writes and torch.export.load reads, of a recorded model and its weights.
import type { Tensor } from "../../../ffi/tensor.ts";
import { writeAtomically } from "../../base/atomic.ts";
import { toData } from "../../checkpoint/training_state.ts";
import { memoryStorage } from "../../checkpoint/value.ts";
import { zipWriter } from "../../checkpoint/zip_writer.ts";
import type { Model } from "../../models/model.ts";
import { openExported } from "../../models/exported/archive.ts";
import { ProgramValue, type RecordedModel } from "../recorded.ts";
import { type Kept, metaOf, type ProgramJson, programJson } from "./graph.ts";

export function writePt2(path: string, model: Model, recorded: RecordedModel): void {
  const kept = [...weightsOf(model, recorded), ...constantsOf(recorded)];
  const entries = entriesOf(kept), program = programJson(recorded, kept);
  const needBytes = kept.reduce((sum, { tensor }) => sum + tensor.byteLength, 0);
  writeAtomically(path, (file) => {
    const zip = zipWriter(file);
    const text = (name: string, content: string) =>
      zip.add(`${ROOT}/${name}`, memoryStorage(new TextEncoder().encode(content)));
    for (const [place, tensor] of entries.tensors) zip.add(`${ROOT}/${place}`, toData(tensor).storage);
    text("data/weights/model_weights_config.json", JSON.stringify({ config: entries.weights }));
    text("data/constants/model_constants_config.json", JSON.stringify({ config: entries.constants }));
    text("models/model.json", JSON.stringify(program));
    text("data/sample_inputs/model.pt", "");
    text("archive_format", "pt2");
    text("archive_version", "0");
    text(".data/version", "6\n");
    text("byteorder", "little");
    zip.finish();
  }, { needBytes, check: (temporary) => openExported(temporary).close() });
}

const ROOT = "model";

/** The whole state dict: what forward does not use is there for load_state_dict. */
function weightsOf({ root }: Model, { ops }: RecordedModel): Kept[] {
  const used = new Map(
    valuesOf(ops).flatMap((value) => value.weight === null ? [] : [[value.weight, value]]),
  );
  const learnt = new Set(root.namedParameters().map(([, tensor]) => tensor));
  const kept = root.stateDict().map(([of, tensor]): Kept => {
    const kind = learnt.has(tensor) ? "parameter" : "buffer";
    return { name: `${kind[0]}_${of.replaceAll(".", "_")}`, of, kind, tensor, value: used.get(of) ?? null };
  });
  return [
    ...kept.filter(({ kind }) => kind === "parameter"),
    ...kept.filter(({ kind }) => kind === "buffer"),
  ];
}

function constantsOf({ ops }: RecordedModel): Kept[] {
  const constants = valuesOf(ops).filter(({ weight, tensor }) => weight === null && tensor !== null);
  return constants.map((value, i) => ({
    ...{ name: `c_constant_${i}`, of: `constant_${i}`, kind: "constant" },
    ...{ tensor: value.tensor!, value },
  }));
}

const valuesOf = (ops: RecordedModel["ops"]): ProgramValue[] => [
  ...new Set(ops.flatMap(({ args }) => args.flat(2).filter((arg) => arg instanceof ProgramValue))),
];

function entriesOf(kept: readonly Kept[]) {
  const tensors: [place: string, tensor: Tensor][] = [], places = new Map<Tensor, string>();
  const config = (all: readonly Kept[], folder: string, file: string): ProgramJson =>
    Object.fromEntries(all.map(({ of, kind, tensor }): [string, ProgramJson] => {
      let place = places.get(tensor); // tied weights share one
      if (place === undefined) {
        places.set(tensor, place = `${file}_${tensors.length}`);
        tensors.push([`data/${folder}/${place}`, tensor]);
      }
      const learns = kind === "parameter";
      return [of, {
        path_name: place,
        is_param: learns,
        use_pickle: false,
        tensor_meta: metaOf(tensor, learns),
      }];
    }));
  const weights = config(kept.filter(({ kind }) => kind !== "constant"), "weights", "weight");
  const constants = config(kept.filter(({ kind }) => kind === "constant"), "constants", "tensor");
  return { tensors, weights, constants };
}
