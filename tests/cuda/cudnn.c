// cuDNN: descriptors that answer, work that is counted. `numbers` computes above it.
#include "standin.h"
#include <stdlib.h>

typedef struct {
  void *stream;
} Handle;
size_t cudnnGetVersion(void) { return 92600; }
size_t cudnnGetCudartVersion(void) { return 13020; }
int cudnnGetProperty(int which, int *value) { *value = which == 0 ? 9 : which == 1 ? 26 : 0; return 0; }
const char *cudnnGetErrorString(int code) { return code ? "an error of the stand-in" : "success"; }
void cudnnGetLastErrorString(char *to, size_t room) { if (room) *to = 0; }
int cudnnCreate(Handle **h) { *h = calloc(1, sizeof(Handle)); return 0; }
int cudnnDestroy(Handle *h) { free(h); return 0; }
int cudnnSetStream(Handle *h, void *stream) { h->stream = stream; return 0; }
int cudnnGetStream(Handle *h, void **stream) { *stream = h->stream; return 0; }

#define MADE(name) int name(void **out, ...) { *out = calloc(1, 64); return 0; }
MADE(cudnnCreateActivationDescriptor) MADE(cudnnCreateCTCLossDescriptor) MADE(cudnnCreateConvolutionDescriptor)
MADE(cudnnCreateDropoutDescriptor) MADE(cudnnCreateFilterDescriptor) MADE(cudnnCreatePoolingDescriptor)
MADE(cudnnCreateRNNDataDescriptor) MADE(cudnnCreateRNNDescriptor) MADE(cudnnCreateSpatialTransformerDescriptor)
MADE(cudnnCreateTensorDescriptor)

int cudnnGetBatchNormalizationForwardTrainingExWorkspaceSize(void *h, int mode, int ops, void *x, void *z, void *y, void *s,
                                                             void *a, size_t *bytes) {
  (void)h, (void)mode, (void)ops, (void)x, (void)z, (void)y, (void)s, (void)a;
  *bytes = 0;
  return 0;
}
int cudnnGetBatchNormalizationTrainingExReserveSpaceSize(void *h, int mode, int ops, void *a, void *x, size_t *bytes) {
  (void)h, (void)mode, (void)ops, (void)a, (void)x;
  *bytes = 0;
  return 0;
}
int cudnnGetBatchNormalizationBackwardExWorkspaceSize(void *h, int mode, int ops, void *x, void *y, void *dy, void *dz,
                                                      void *dx, void *s, void *a, size_t *bytes) {
  (void)h, (void)mode, (void)ops, (void)x, (void)y, (void)dy, (void)dz, (void)dx, (void)s, (void)a;
  *bytes = 0;
  return 0;
}
int cudnnDropoutGetStatesSize(void *h, size_t *bytes) { (void)h; *bytes = 1024; return 0; }
#define WORK(name) int name(Handle *h, ...) { return standin_library_kernel(#name, h->stream); }
WORK(cudnnBatchNormalizationForwardTrainingEx) WORK(cudnnBatchNormalizationBackwardEx)
WORK(cudnnBatchNormalizationForwardInference)

// The graph interface: one engine that does everything, without a workspace.
enum { INT64 = 3, DESCRIPTOR = 15 };
int cudnnBackendCreateDescriptor(int type, void **out) { (void)type; *out = calloc(1, 64); return 0; }
int cudnnBackendDestroyDescriptor(void *it) { free(it); return 0; }
int cudnnBackendFinalize(void *it) { (void)it; return 0; }
int cudnnBackendSetAttribute(void *it, int name, int type, int64_t count, const void *values) {
  (void)it, (void)name, (void)type, (void)count, (void)values;
  return 0;
}
int cudnnBackendGetAttribute(void *it, int name, int type, int64_t asked, int64_t *given, void *values) {
  (void)it, (void)name;
  if (type == INT64 && values && asked > 0) *(int64_t *)values = 0;
  if (given) *given = type == DESCRIPTOR || type == INT64;
  return 0;
}
int cudnnBackendExecute(Handle *h, void *plan, void *pack) {
  (void)plan, (void)pack;
  return standin_library_kernel("cudnnBackendExecute", h->stream);
}
