// The Python programs that training is compared with. Test helper.
import { askPeer } from "../../peer.ts";

/** What tests/peers/train/<program> answers to `input`. */
export const peer = <T>(program: string, input: unknown): Promise<T> => askPeer(`train/${program}`, input);
