# What a compiled program needs besides its imports: files that are read, or started as threads, by URL. For `deno compile`.
EMBEDDED=()
for file in presets core/user/templates core/track/report/page core/data/loader/thread.ts core/data/images/fast_jpeg.wasm core/data/generated/thread.ts \
  core/checkpoint/background/thread.ts core/train/ears_thread.ts core/dist/cpu/thread.ts core/dist/nccl/watch.ts core/dist/control/thread.ts \
  core/cluster/doctor/full/watchdog.ts core/track/thread/thread.ts core/track/wandb/sync/online_thread.ts; do
  [[ ! -e $ROOT/$file ]] || EMBEDDED+=(--include "$file")
done
unset file
