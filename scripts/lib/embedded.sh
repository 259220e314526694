# What a compiled program needs besides its imports: files that are read, or started as threads, by URL. For `deno compile`.
EMBEDDED=()
for file in presets core/models/user/templates core/outputs/report/page core/data/loader/thread.ts core/data/formats/images/fast_jpeg.wasm core/data/cosmology/thread.ts \
  core/checkpoint/background/thread.ts core/train/signal_thread.ts core/ranks/cpu/thread.ts core/ranks/nccl/watch_thread.ts core/ranks/control/thread.ts \
  core/cluster/doctor/full/watchdog.ts core/run/writer/thread.ts core/outputs/wandb/sync/online_thread.ts \
  $(cd "$ROOT" && echo core/outputs/*/sink.ts); do
  [[ ! -e $ROOT/$file ]] || EMBEDDED+=(--include "$file")
done
unset file
