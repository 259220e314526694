// A thread that makes samples: told which, it answers with them. May import cosmology, ffi.
import type { Libtorch } from "../../../ffi/libraries/types.ts";
import { openLibtorch } from "../../../ffi/library.ts";
import { simulation, type SimulationSpec } from "../../cosmology/options.ts";
import type { Role } from "../../cosmology/prior.ts";
import type { Simulation } from "../../cosmology/simulation.ts";
import type { ThreadScope } from "../../thread_scope.ts";

declare const self: ThreadScope;

export interface Orders {
  readonly libtorch: Libtorch;
  readonly spec: SimulationSpec;
}

export interface Wanted {
  readonly role: Role;
  readonly id: number;
}

export interface Answer {
  readonly maps: Float32Array<ArrayBuffer>;
  readonly targets: Float32Array<ArrayBuffer>;
}

let made: Simulation;

self.onmessage = ({ data }: MessageEvent<Orders | Wanted>) => {
  if ("spec" in data) {
    openLibtorch(data.libtorch);
    made = simulation(data.spec);
    return;
  }
  const { shape, targets } = made;
  const answer: Answer = {
    maps: new Float32Array(shape[0] * shape[1] * shape[2]),
    targets: new Float32Array(targets.length),
  };
  made.make(data.role, data.id, answer.maps, answer.targets);
  self.postMessage(answer, [answer.maps.buffer, answer.targets.buffer]);
};
