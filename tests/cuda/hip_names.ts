// The functions of AMD's libraries that the program asks for, as their public headers declare them. A test holds the
// program's table against this list, so a function that is new in the program is looked up there first.

/** include/hip/hip_runtime_api.h of github.com/ROCm/HIP, c5e11fcac (ROCm 6.3): libamdhip64. */
export const HIP: readonly string[] = [
  "hipDeviceGet",
  "hipDeviceGetAttribute",
  "hipDeviceGetName",
  "hipDeviceGetUuid",
  "hipDeviceSynchronize",
  "hipDriverGetVersion",
  "hipDrvGetErrorString",
  "hipEventCreateWithFlags",
  "hipEventDestroy",
  "hipEventElapsedTime",
  "hipEventQuery",
  "hipEventRecord",
  "hipEventSynchronize",
  "hipGetDeviceCount",
  "hipGetDevicePropertiesR0600",
  "hipGetErrorString",
  "hipGetLastError",
  "hipGraphDestroy",
  "hipGraphLaunch",
  "hipInit",
  "hipMemGetInfo",
  "hipModuleGetFunction",
  "hipModuleLaunchKernel",
  "hipModuleLoadData",
  "hipModuleLoadDataEx",
  "hipModuleUnload",
  "hipRuntimeGetVersion",
  "hipSetDevice",
  "hipStreamBeginCapture",
  "hipStreamEndCapture",
  "hipStreamIsCapturing",
  "hipStreamSynchronize",
  "hipStreamWaitEvent",
  "hipThreadExchangeStreamCaptureMode",
];

/** include/hip/hiprtc.h, there: libhiprtc. */
export const HIPRTC: readonly string[] = [
  "hiprtcCompileProgram",
  "hiprtcCreateProgram",
  "hiprtcDestroyProgram",
  "hiprtcGetCode",
  "hiprtcGetCodeSize",
  "hiprtcGetProgramLog",
  "hiprtcGetProgramLogSize",
  "hiprtcVersion",
];

/** src/nccl.h.in of github.com/ROCm/rccl, 0cbce2a7: librccl. */
export const RCCL: readonly string[] = [
  "ncclAllGather",
  "ncclAllReduce",
  "ncclBroadcast",
  "ncclCommAbort",
  "ncclCommDestroy",
  "ncclCommFinalize",
  "ncclCommGetAsyncError",
  "ncclCommInitRankConfig",
  "ncclGetErrorString",
  "ncclGetLastError",
  "ncclGetUniqueId",
  "ncclGetVersion",
  "ncclGroupEnd",
  "ncclGroupStart",
  "ncclReduceScatter",
];

/** include/rocm_smi/rocm_smi.h of github.com/ROCm/rocm_smi_lib, a129571, and of ROCm 7 in github.com/ROCm/rocm-systems. */
export const ROCM_SMI: readonly string[] = [
  "rsmi_dev_busy_percent_get",
  "rsmi_dev_ecc_count_get",
  "rsmi_dev_gpu_clk_freq_get",
  "rsmi_dev_gpu_metrics_info_get",
  "rsmi_dev_memory_busy_percent_get",
  "rsmi_dev_memory_total_get",
  "rsmi_dev_memory_usage_get",
  "rsmi_dev_power_get",
  "rsmi_dev_temp_metric_get",
  "rsmi_dev_unique_id_get",
  "rsmi_init",
  "rsmi_num_monitor_devices",
  "rsmi_shut_down",
];
