// The thread that watches NCCL (entry of a Worker) while the training thread may be inside a native call: it times
// collectives, and aborts the communicator when NCCL reports an error. It never loads libtorch.
import { type CudaEvents, inProgress, type Nccl, openCudaEvents, openNccl } from "../../../ffi/nccl/nccl.ts";
import { end, type FlightRecorder, openFlightRecorder, recorded } from "../flight_recorder.ts";
import * as desk from "./shared.ts";
import type { ThreadScope } from "../../base/threads.ts";

declare const self: ThreadScope;

export interface NcclThreadOptions {
  readonly nccl: string;
  readonly cudart: string;
  readonly device: number;
  readonly comm: bigint;
  readonly desk: SharedArrayBuffer;
  readonly flight: SharedArrayBuffer;
}

/** Between two looks: while something is under way, and while nothing is. */
const LOOK_MS = 5, IDLE_MS = 100;

self.onmessage = ({ data }: MessageEvent<NcclThreadOptions>) => {
  const here = desk.openNcclShared(data.desk);
  try {
    watch(data, here, openFlightRecorder(data.flight));
  } catch (error) {
    desk.fail(here, `Communication between ranks failed: ${error instanceof Error ? error.message : error}`);
  }
  self.postMessage(null);
};

function watch(
  { nccl: path, cudart, device, comm }: NcclThreadOptions,
  here: desk.NcclShared,
  flight: FlightRecorder,
): void {
  const nccl = openNccl(path), events = openCudaEvents(cudart);
  events.useDevice(device);
  events.besideCapture();
  let ended = 0, measured = 0;
  for (;;) {
    const told = Atomics.load(here.words, desk.REQUEST);
    const code = told === desk.GO_ON ? nccl.state(comm) : 0;
    for (; desk.reached(here, desk.QUEUED, ended + 1); ended++) {
      const done = desk.eventOf(here, ended + 1, desk.DONE);
      if (!events.done(done)) break;
      end(flight, ended + 1, events.seconds(desk.eventOf(here, ended + 1, desk.BEGUN), done));
    }
    if (code !== 0 && !inProgress(code)) desk.fail(here, sentenceOf(nccl, comm, code, flight, ended));
    // What is queued ends without a result then, and the training thread comes out of its native call to read why.
    if (told === desk.ABORT || desk.failure(here) !== null) return void nccl.abort(comm);
    measured = measure(here, events, measured);
    if (told === desk.STOP) return;
    const idle = !desk.reached(here, desk.QUEUED, ended + 1);
    if (idle) Atomics.wait(here.words, desk.QUEUED, ended | 0, IDLE_MS);
    else Atomics.wait(here.words, desk.REQUEST, told, LOOK_MS);
  }
}

function measure(here: desk.NcclShared, events: CudaEvents, measured: number): number {
  while (desk.reached(here, desk.WAITS, measured + 1)) {
    const behind = desk.pairOf(here, measured + 1, 1);
    if (!events.done(behind)) break;
    here.waited[0] += events.seconds(desk.pairOf(here, measured + 1, 0), behind);
    Atomics.store(here.words, desk.MEASURED, ++measured | 0);
  }
  return measured;
}

function sentenceOf(nccl: Nccl, comm: bigint, code: number, flight: FlightRecorder, ended: number): string {
  const at = recorded(flight, ended + 1);
  const where = at ? ` in ${at.op} ${at.sequence} (${at.phase})` : "";
  return `Communication between ranks failed${where}: ${nccl.text(code, comm)} (${nccl.version}).`;
}
