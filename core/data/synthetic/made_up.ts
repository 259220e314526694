import type { DataReader, DataRequest, Sources } from "../format.ts";
import type { Source } from "../source/source.ts";
import { checkCount, makeFields, type Spec } from "./fields.ts";
import { makeSynthetic } from "./synthetic.ts";

const madeUp = (make: (spec: Spec) => Source): DataReader => ({
  open: ({ data, training: { seed, loss }, model }: DataRequest): Sources => {
    const made = (role: Spec["role"], samples: number) => {
      const spec = { role, samples, seed, loss, model };
      checkCount(spec);
      return make(spec);
    };
    return {
      train: made("train", data.train_samples),
      val: data.val_samples > 0 ? made("val", data.val_samples) : null,
      notes: [],
    };
  },
});

export const madeUpReaders = { synthetic: madeUp(makeSynthetic), fields: madeUp(makeFields) };
