// A thread that makes samples: it is sent their numbers and answers with them.
import type { Libtorch } from "../../ffi/libraries/find.ts";
import { openLibtorch } from "../../ffi/library.ts";
import { simulation, type SimulationSpec } from "./options.ts";
import type { SampleRole, Simulation } from "./simulation.ts";
import type { ThreadScope } from "../../core/base/threads.ts";

declare const self: ThreadScope;

export interface SimulationThreadOptions {
  readonly libtorch: Libtorch;
  readonly spec: SimulationSpec;
}

export interface SampleRequest {
  readonly role: SampleRole;
  readonly id: number;
}

export interface SimulatedSample {
  readonly maps: Float32Array<ArrayBuffer>;
  readonly targets: Float32Array<ArrayBuffer>;
}

let made: Simulation;

self.onmessage = ({ data }: MessageEvent<SimulationThreadOptions | SampleRequest>) => {
  if ("spec" in data) {
    openLibtorch(data.libtorch);
    made = simulation(data.spec);
    return;
  }
  const { shape, targets } = made;
  const answer: SimulatedSample = {
    maps: new Float32Array(shape[0] * shape[1] * shape[2]),
    targets: new Float32Array(targets.length),
  };
  made.make(data.role, data.id, answer.maps, answer.targets);
  self.postMessage(answer, [answer.maps.buffer, answer.targets.buffer]);
};
