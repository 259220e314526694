// librocm_smi64.so.1: what an AMD GPU tells of itself. Records are those of ROCm 6.3 and 7.
#include "standin.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { GOOD = 0, INVALID = 1, NOT_SUPPORTED = 2 };
static int of(const char *name, uint32_t device) {
  char text[64];
  snprintf(text, sizeof text, "%s of %u", name, device);
  standin_count("rocm_smi", text, 0);
  return device < (uint32_t)standin_devices() ? GOOD : INVALID;
}
#define OF(name)                   \
  do {                             \
    int code = of(#name, device);  \
    if (code) return code;         \
  } while (0)

int rsmi_init(uint64_t flags) { (void)flags; return GOOD; }
int rsmi_shut_down(void) { return GOOD; }
int rsmi_num_monitor_devices(uint32_t *count) { *count = standin_devices(); return GOOD; }
int rsmi_dev_unique_id_get(uint32_t device, uint64_t *id) { OF(unique_id); *id = standin_unique(device); return GOOD; }
int rsmi_dev_busy_percent_get(uint32_t device, uint32_t *percent) { OF(busy); *percent = 50; return GOOD; }
int rsmi_dev_memory_busy_percent_get(uint32_t device, uint32_t *percent) { OF(memory_busy); *percent = 25; return GOOD; }
int rsmi_dev_memory_total_get(uint32_t device, int type, uint64_t *bytes) {
  OF(memory_total);
  if (type != 0) return NOT_SUPPORTED;
  *bytes = standin_memory();
  return GOOD;
}
int rsmi_dev_memory_usage_get(uint32_t device, int type, uint64_t *bytes) {
  OF(memory_usage);
  if (type != 0) return NOT_SUPPORTED;
  *bytes = standin_memory() - standin_free_memory(0);
  return GOOD;
}
int rsmi_dev_power_get(uint32_t device, uint64_t *microwatts, uint32_t *type) {
  OF(power);
  *microwatts = 312500000;
  *type = 1;
  return GOOD;
}
/** Like an MI300: no sensor at an edge. */
int rsmi_dev_temp_metric_get(uint32_t device, uint32_t sensor, int metric, int64_t *millidegrees) {
  OF(temperature);
  if (sensor != 1 || metric != 0) return NOT_SUPPORTED;
  *millidegrees = 61000;
  return GOOD;
}
typedef struct { uint8_t deep_sleep; uint32_t supported, current; uint64_t hertz[33]; } Frequencies;
int rsmi_dev_gpu_clk_freq_get(uint32_t device, int clock, Frequencies *f) {
  OF(clock);
  if (clock != 0 && clock != 4) return NOT_SUPPORTED;
  *f = (Frequencies){.supported = 2, .current = 1, .hertz = {500000000, clock ? 1600000000 : 1700000000}};
  return GOOD;
}
int rsmi_dev_ecc_count_get(uint32_t device, uint64_t block, uint64_t *corrected_and_not) {
  OF(errors);
  if (block != 1) return NOT_SUPPORTED;
  const char *errors = getenv("CUDA_STANDIN_MEMORY_ERRORS");
  corrected_and_not[0] = 7;
  corrected_and_not[1] = errors ? atol(errors) : 0;
  return GOOD;
}
/** CUDA_STANDIN_THROTTLE: bits of indep_throttle_status. The counters of MI300 go on by a second each time. */
int rsmi_dev_gpu_metrics_info_get(uint32_t device, unsigned char *metrics) {
  static uint64_t times;
  OF(metrics);
  const char *bits = getenv("CUDA_STANDIN_THROTTLE"), *held = getenv("CUDA_STANDIN_HELD_BACK");
  uint64_t now = bits ? strtoull(bits, NULL, 0) : 0, counted = held ? ++times : 0;
  memset(metrics, 0xff, 1832);
  memcpy(metrics + 112, &now, sizeof now);
  memcpy(metrics + 440, &counted, sizeof counted); // package power
  return GOOD;
}
