// Only the training thread uses this: a thread that watches NCCL has no tensors.
import type { Stream } from "../cuda.ts";
import { addressOf } from "../make.ts";
import { describe, type Device, type Tensor } from "../tensor.ts";
import { type Comm, type Nccl, NCCL_TYPES, type NcclOp, type NcclType } from "./nccl.ts";

/** It gives NCCL's code. */
export type NcclCall = () => number;

export interface NcclVerbs {
  allReduce(t: Tensor, op: NcclOp): NcclCall;
  broadcast(t: Tensor, root: number): NcclCall;
  allGather(into: Tensor, own: Tensor): NcclCall;
  reduceScatter(own: Tensor, from: Tensor): NcclCall;
}

export function ncclVerbs(nccl: Nccl, comm: Comm, stream: Stream, device: Device): NcclVerbs {
  const at = (t: Tensor): bigint => {
    if (t.device !== device) throw new Error(`internal: NCCL can't reach ${describe(t)} from ${device}.`);
    return addressOf(t);
  };
  return {
    allReduce(t, op) {
      const to = at(t), { numel } = t, type = typeOf(t);
      return () => nccl.allReduce(to, numel, type, op, comm, stream);
    },
    broadcast(t, root) {
      const to = at(t), { byteLength } = t;
      return () => nccl.broadcast(to, byteLength, "u8", root, comm, stream);
    },
    allGather(into, own) {
      const from = at(own), to = at(into), { byteLength } = own;
      return () => nccl.allGather(from, to, byteLength, "u8", comm, stream);
    },
    reduceScatter(own, from) {
      const of = at(from), to = at(own), { numel } = own, type = typeOf(own);
      return () => nccl.reduceScatter(of, to, numel, type, comm, stream);
    },
  };
}

function typeOf(t: Tensor): NcclType {
  if (t.dtype in NCCL_TYPES) return t.dtype as NcclType;
  throw new Error(
    `internal: NCCL can't add up ${describe(t)}: it must be ${Object.keys(NCCL_TYPES).join(", ")}.`,
  );
}
