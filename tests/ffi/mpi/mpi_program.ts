// One rank for the test of MPI's calls: LIBRARY MOST FILE. Rank 0 writes what every collective gave; MOST is how many
// elements a call takes.
import { openMpi } from "../../../ffi/mpi/mpi.ts";

const [library, most, file] = Deno.args;
const addressOf = (values: Float64Array<ArrayBuffer>) =>
  Deno.UnsafePointer.value(Deno.UnsafePointer.of(values));

const mpi = openMpi(library, null, Number(most));
const { rank, size } = mpi;
const count = 10;
const sums = Float64Array.from({ length: count }, (_, i) => i + rank);
mpi.allReduce(addressOf(sums), count, "f64", "sum");
const told = Float64Array.from({ length: count }, (_, i) => 100 * rank + i);
mpi.broadcast(addressOf(told), 8 * count, size - 1);
const own = Float64Array.from({ length: count }, (_, i) => 100 * rank + i);
const all = new Float64Array(size * count);
mpi.allGather(addressOf(all), addressOf(own), 8 * count);
const wide = Float64Array.from({ length: size * count }, (_, i) => i * (rank + 1));
const part = new Float64Array(count), parts = new Float64Array(size * count);
mpi.reduceScatter(addressOf(part), addressOf(wide), count, "f64");
mpi.allGather(addressOf(parts), addressOf(part), 8 * count);
mpi.barrier();
if (rank === 0) {
  const gave = [sums, told, all, parts].map((values) => [...values]);
  Deno.writeTextFileSync(file, JSON.stringify({ version: mpi.version, abi: mpi.abi, gave }));
}
mpi.finalize();
