// Threads that make samples. Each takes the next one when it is done, and each sample is the same whoever makes it.
// May import packed, its siblings.
import type { Libtorch } from "../../../ffi/libraries/types.ts";
import type { SimulationSpec } from "../../cosmology/options.ts";
import { inputOf, layoutOf, targetOf } from "../packed/format.ts";
import type { Make, Plan } from "../packed/write.ts";
import type { Answer, Orders, Wanted } from "./thread.ts";

export interface Pool {
  make(plan: Plan): Make;
  close(): void;
}

export function openPool(spec: SimulationSpec, libtorch: Libtorch, threads: number): Pool {
  const orders: Orders = { spec, libtorch };
  const workers = Array.from({ length: threads }, (_, i) => {
    const worker = new Worker(new URL("./thread.ts", import.meta.url), {
      type: "module",
      name: `maker ${i + 1}`,
    });
    worker.postMessage(orders);
    return worker;
  });
  const ask = (worker: Worker, wanted: Wanted) =>
    new Promise<Answer>((resolve, reject) => {
      worker.onmessage = ({ data }: MessageEvent<Answer>) => resolve(data);
      worker.onerror = (event) => {
        event.preventDefault();
        reject(new Error(`internal: a thread that made sample ${wanted.id} ended: ${event.message}`));
      };
      worker.postMessage(wanted);
    });
  return {
    make({ schema, samples, val = 0 }) {
      const layout = layoutOf(schema), train = samples - val;
      return async (first, count, rows) => {
        const role = first < train ? "train" : "val", start = role === "train" ? first : first - train;
        let next = 0;
        await Promise.all(workers.map(async (worker) => {
          while (next < count) {
            const i = next++;
            const { maps, targets } = await ask(worker, { role, id: start + i });
            inputOf(rows, layout, i).set(new Uint8Array(maps.buffer));
            targetOf(rows, layout, i).set(new Uint8Array(targets.buffer));
          }
        }));
      };
    },
    close() {
      for (const worker of workers) worker.terminate();
    },
  };
}
