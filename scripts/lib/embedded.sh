# What a compiled program needs besides its imports: files that are read, or started as threads, by URL. For `deno compile`.
EMBEDDED=()
for file in presets core/adopt/watch core/models/user/templates core/outputs/report/page core/outputs/python/package core/data/loader/thread.ts core/data/formats/parquet/thread.ts core/data/arrays/row_blocks_thread.ts core/data/codecs/fast_jpeg.wasm core/data/augment/pixels.wasm core/data/formats/zarr/server_thread.ts \
  core/checkpoint/background/thread.ts core/train/signal_thread.ts ffi/nvrtc_thread.ts core/train/leaving_thread.ts core/ranks/cpu/thread.ts core/ranks/nccl/watch_thread.ts core/ranks/control/thread.ts \
  core/cluster/doctor/full/watchdog.ts core/cluster/sweep/watch_thread.ts core/cluster/sweep/page core/run/writer/thread.ts core/outputs/wandb/sync/online_thread.ts \
  $(cd "$ROOT" && echo core/outputs/*/sink.ts extensions/*/{sink.ts,thread.ts,reader.ts,page}); do
  [[ ! -e $ROOT/$file ]] || EMBEDDED+=(--include "$file")
done
unset file
# V8 marks garbage in tasks of a thread's event loop, each of which starts the next until marking is over, and Deno runs
# them all before it looks at messages. On two cores one thread marks for the whole process, and it may be waiting for a
# thread that idles (to compile for it, V8 needs a collection, and Deno does not wake it for that): then neither goes on,
# nor does the save that training waits for. Without these tasks a thread marks while it allocates, and waits for no other.
#
# Objects that live shortly are given up to 8 MB in place of 16: making a compiled step would take the rest, and never give
# it back. With 4 MB an MLP's ordinary step of 0.2 ms takes some 9% longer.
ENGINE=--v8-flags=--no-incremental-marking-task,--max-semi-space-size=8
